"""`heliograph topics`: words, questions, results and exit codes; the clusters are played."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliograph.controller.ledger_word import Answer
from heliograph.interface.cli import main as cli
from heliograph.interface.cli import topics
from heliograph.model.command import Outcome, Wish
from heliograph.model.errors import ClusterUnreachable
from heliograph.model.link import Link
from heliograph.model.link_status import LinkStatus
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState
from heliograph.operations.decision import Decision
from heliograph.operations.looking import LinkView
from heliograph.operations.recording import Done, Runners, commands_of
from tests.operations.scene import NOW, look, sight, stop_row, wished

FINE = sight((0, 100), (0, 90))
LOST = sight((50, 100), (0, 20))
CLUSTERS = {"sf": {"bootstrap.servers": "sf:9092"}, "nyc": {"bootstrap.servers": "nyc:9092"}}
LINKS = {"sf-to-nyc": {"source": "sf", "target": "nyc", "topics": ["orders"]}}


@dataclass
class World:
    """What is seen, and what mirrors say of each command; `written`: the decisions that were recorded."""

    seen: LinkView = field(default_factory=lambda: look(FINE, FINE))
    runners: Runners = field(default_factory=Runners)
    says: Outcome | None = None
    written: list[Decision] = field(default_factory=list)

    def record(self, _settings: Settings, decision: Decision) -> Done:
        self.written.append(decision)
        commands = commands_of(decision, "ann@desk", NOW)
        answers = {
            command.id: Answer(id=command.id, outcome=self.says, message="its words", hint="its hint")
            for _, command in commands
            if self.says is not None
        }
        return Done(commands=commands, runners=self.runners, answers=answers)

    def look_at_link(self, _settings: Settings, _link: Link, _traced: Sequence[str]) -> LinkView:
        return self.seen

    def look_at_links(self, _settings: Settings, _links: Sequence[Link], _now: object) -> Any:
        return [(self.seen.status, self.seen.partitions)], ["the ledger cannot be read"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    played = World()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HELIOGRAPH_CONFIG", raising=False)
    monkeypatch.setattr(topics, "_record", played.record)
    monkeypatch.setattr(topics, "_look_at_link", played.look_at_link)
    monkeypatch.setattr(topics, "_look_at_links", played.look_at_links)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    Path("heliograph.yaml").write_text(yaml.safe_dump({"version": 1, "clusters": CLUSTERS, "links": LINKS}))
    return played


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["topics", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_with_no_mirror_running_a_command_is_recorded(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("pause", "orders:1") == 0
    assert capsys.readouterr().out == (
        "pause orders:1: recorded: no mirror runs; the next one does it when it starts\n"
    )
    assert [each.where.partition for each in world.written[0].drafts] == [1]


@pytest.mark.parametrize(
    ("says", "code", "words"),
    [
        (Outcome.APPLIED, 0, "pause orders:0: applied\n"),
        (Outcome.REFUSED, 1, "orders:0: refused: its words\nhint: its hint\n"),
        (Outcome.UNDER_WAY, 1, "orders:0: still under way: its words\nhint: its hint\n"),
        (None, 1, "no answer from the running mirror on desk (pid 7) in 10 s; the command stays recorded\n"),
    ],
)
def test_the_exit_code_is_what_became_of_it(
    world: World, says: Outcome | None, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.says, world.runners = says, Runners(names=("desk (pid 7)",))
    assert run("pause", "orders:0") == code
    assert capsys.readouterr().out.endswith(words)


def test_mirrors_that_cannot_be_asked_for_are_not_taken_for_none(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.runners = Runners(problem="the group may not be seen")
    assert run("pause", "orders:0") == 1
    assert "the command stays recorded; the group may not be seen" in capsys.readouterr().out


def test_a_dry_run_writes_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("remirror", "orders", "--dry-run", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["recorded"] is False
    assert "is deleted, made again" in printed.err
    assert world.written == []


@pytest.mark.parametrize(
    "words", [("remirror", "orders"), ("resume", "orders", "--accept-loss")], ids=["remirror", "loss"]
)
def test_what_is_lost_wants_a_yes(
    world: World,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world.seen = look(LOST, rows=[stop_row()])
    assert run(*words) == 2
    assert "no terminal to ask" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert run(*words) == 1
    assert "nothing was done" in capsys.readouterr().err
    assert world.written == []
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert run(*words) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run(*words, "--yes") == 0
    assert [each.drafts[0].loses for each in world.written] == [world.written[0].drafts[0].loses] * 2


def test_a_loss_is_refused_with_the_line_that_accepts_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.seen = look(LOST, rows=[stop_row()])
    assert run("resume", "-f", "heliograph.yaml", "orders") == 1
    printed = capsys.readouterr().err
    assert "refused: orders:0: offsets 20 to 49 (30) are lost" in printed
    assert "hint: heliograph topics resume -f heliograph.yaml sf-to-nyc orders:0 --accept-loss" in printed
    assert world.written == []


def test_what_runs_is_not_resumed(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.seen = look(FINE, told={0: {"state": PartitionState.CAUGHT_UP}})
    assert run("resume", "sf-to-nyc", "orders:0") == 0
    assert capsys.readouterr().out == "orders:0 is not stopped or paused\n"
    assert run("resume", "--all") == 0
    assert capsys.readouterr().out == "nothing to resume\n"
    assert world.written == []


def test_many_are_resumed_by_state_and_code(world: World) -> None:
    world.seen = look(FINE, FINE, rows=[stop_row(0, "gap")], commands=[wished(Wish.PAUSE, 1)])
    assert run("resume", "--all", "--state", "paused") == 0
    assert run("resume", "--all", "--code", "gap") == 0
    assert [each.drafts[0].where.partition for each in world.written] == [1, 0]


def test_of_many_partitions_only_what_is_lost_is_all_shown(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.seen = look(*[FINE] * 60, source_configs={"retention.ms": "7200000"})
    assert run("pause", "--all", "--dry-run") == 0
    printed = capsys.readouterr()
    assert printed.err.count("the source keeps records for 2 h") == 50
    assert printed.err.endswith("10 more: --json has all\n")
    assert printed.out.startswith("would pause orders:0, ")
    assert printed.out.endswith(" and 10 more; nothing was written (--dry-run)\n")
    world.seen = look(*[LOST] * 60, rows=[stop_row(number) for number in range(60)])
    assert run("resume", "--all", "--accept-loss", "--dry-run") == 0
    assert capsys.readouterr().err.count("are lost for ever") == 60


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pause",), "no topic is named"),
        (("pause", "orders", "--all"), "both --all and orders"),
        (("pause", "payments"), "does not mirror topic payments"),
        (("resume", "orders:x"), "is no topic"),
        (("remirror", "orders:0"), "only the whole topic"),
        (("list", "other-link"), "does not mirror topic other-link"),
        (("list", "--state", "asleep"), "asleep"),
        (("list", "--code", "asleep"), "asleep"),
        (("list", "--topic", "payments"), "does not mirror topic payments"),
        (("pause", "-f", "absent.yaml", "orders"), "absent.yaml does not exist"),
    ],
)
def test_wrong_use_exits_2(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert message in capsys.readouterr().err


def test_topics_are_mirrored_again_by_the_code_of_their_stop(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.seen = look(FINE, FINE, rows=[stop_row(1, "foreign")])
    assert run("remirror", "--all", "--code", "lost", "--yes") == 0
    assert world.written == []
    assert run("remirror", "--all", "--code", "foreign", "--yes") == 0
    assert [each.where.source_topic for each in world.written[0].drafts] == ["orders"]
    assert "recorded" in capsys.readouterr().out


def test_a_list_takes_links_and_topics_by_name(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.seen = look(FINE, FINE)
    for words in (["orders:1"], ["sf-to-nyc", "orders:1"], ["--topic", "orders:1"]):
        assert run("list", *words, "--json") == 0
        (link,) = json.loads(capsys.readouterr().out)["links"]
        assert [row["partition"] for row in link["partitions"]] == [1]


def test_the_list_begins_with_a_summary_and_shows_fifty_rows(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.seen = look(*[FINE] * 60, rows=[stop_row(57)], commands=[wished(Wish.PAUSE, 58)])
    assert run("list") == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == (
        "link sf-to-nyc: 1 stopped (lag not known), 58 unknown (lag not known), 1 paused (lag not known)"
    )
    assert lines[-1] == "10 more: --all"
    rows = [line for line in lines if "sf-to-nyc │" in line]
    assert len(rows) == 50
    assert "why: lost; do" in rows[0]
    assert "pause asked by ann@desk at 2026-03-01T12:00:00.000+00:00, not read by a mirror yet" in rows[1]
    assert "warning: the ledger cannot be read" in printed.err
    assert run("list", "--all") == 0
    assert "more:" not in capsys.readouterr().out
    assert run("list", "--json", "--state", "stopped") == 0
    (link,) = json.loads(capsys.readouterr().out)["links"]
    assert [row["partition"] for row in link["partitions"]] == [57]


def test_a_cluster_that_is_away_exits_3(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = LinkStatus(link="sf-to-nyc", error="sf does not answer", hint="is it up?")
    monkeypatch.setattr(topics, "_look_at_links", lambda *_: ([(away, ())], []))
    assert run("list") == 3
    assert capsys.readouterr().err == "error: sf does not answer\nhint: is it up?\n"

    def unreachable(*_: object) -> LinkView:
        raise ClusterUnreachable("sf does not answer")

    monkeypatch.setattr(topics, "_look_at_link", unreachable)
    assert run("pause", "orders") == 3
    assert world.written == []
