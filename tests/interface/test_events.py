"""`heliograph events`: words, forms, exit codes and signals; the target clusters are played."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliograph.interface.cli import events
from heliograph.interface.cli import main as cli
from heliograph.interface.cli.events_shown import Rows, shown_as
from heliograph.interface.cli.output import Format
from heliograph.model.errors import ClusterUnreachable, Disconnected
from heliograph.model.link import Link
from heliograph.model.occurrence import Occurrence
from heliograph.model.settings import Settings
from heliograph.model.states import StopReason
from heliograph.operations import event_absence, event_reading
from heliograph.wire.error_codes import ErrorCode
from tests.operations.played_events import NOW, PlayedCluster, occurrence, recorded, refused

CLUSTERS = {name: {"bootstrap.servers": f"{name}:9092"} for name in ("sf", "nyc", "tokyo")}
LINKS = {
    "sf-to-nyc": {"source": "sf", "target": "nyc", "topics": ["orders"]},
    "sf-to-tokyo": {"source": "sf", "target": "tokyo", "topics": ["orders"]},
}
STOP: dict[str, Any] = {
    "code": StopReason.LOST,
    "source_topic": "orders",
    "target_topic": "orders",
    "partition": 3,
    "first_offset": 20,
    "next_offset": 50,
    "hint": "heliograph topics resume sf-to-nyc orders:3 --accept-loss",
}


class World:
    """By name, the clusters that are read."""

    def __init__(self) -> None:
        self.nyc, self.tokyo = PlayedCluster("nyc"), PlayedCluster("tokyo")
        self.asked: list[str] = []

    def clusters(self, _settings: Settings, links: Sequence[Link]) -> list[PlayedCluster]:
        named = [link.target for link in links]
        self.asked += named
        return [cluster for cluster in (self.nyc, self.tokyo) if cluster.name in named]


def ago(message: str, minutes: float = 0.0, **fields: Any) -> Occurrence:
    """By the clock of today: the command goes by it."""
    told = occurrence(message, **fields)
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    return Occurrence(**{name: getattr(told, name) for name in told.__slots__} | {"at": at})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    played = World()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HELIOGRAPH_CONFIG", raising=False)
    monkeypatch.setattr(events, "_clusters", played.clusters)
    monkeypatch.setattr(event_reading, "AGAIN_S", 0.01)
    monkeypatch.setattr(event_reading, "IDLE_S", 0.01)
    monkeypatch.setattr(event_reading, "MISSING_LOOK_S", 0.01)
    monkeypatch.setattr(event_reading, "PATIENCE_S", 0.1)
    monkeypatch.setattr(event_absence, "AWAY_S", 0.05)
    Path("heliograph.yaml").write_text(yaml.safe_dump({"version": 1, "clusters": CLUSTERS, "links": LINKS}))
    return played


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["events", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def signals() -> Iterator[None]:
    """An event loop that handled one leaves it at its default, which would end the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


# -- rows


def test_a_row_tells_what_where_which_offsets_who_told_it_and_what_to_do(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.nyc.there.write(ago("a lane is up", 9), ago("offsets are lost", 5, **STOP))
    world.tokyo.there.write(ago("spark is slow", 7, link=None))
    assert run() == 0
    printed = capsys.readouterr()
    heading, *rows = [re.split(r" {2,}", line) for line in printed.out.splitlines()]
    assert heading == ["at", "severity", "code", "link", "topic", "offsets", "told by", "message"]
    assert [row[1:] for row in rows] == [
        ["info", "lane_up", "sf-to-nyc", "-", "-", "mirror-1/77", "a lane is up"],
        ["info", "lane_up", "-", "-", "-", "mirror-1/77", "spark is slow"],
        [
            "error",
            "lost",
            "sf-to-nyc",
            "orders:3",
            "20 to 49",
            "mirror-1/77",
            f"offsets are lost (hint: {STOP['hint']})",
        ],
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row[0]) for row in rows)
    assert printed.err == ""


def test_the_newest_fifty_are_shown_and_how_to_see_the_others(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.nyc.there.page = 100
    world.nyc.there.write(*(ago(f"event {n}", 200 - n) for n in range(70)))
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("  ")[2] for line in lines[1:-1]] == [f"event {n}" for n in range(20, 70)]
    assert lines[-1] == "20 more before these: --all, or --since, --topic and --code for some"
    assert run("--all") == 0
    assert len(capsys.readouterr().out.splitlines()) == 71


def test_rows_stay_on_their_lines_and_hold_nothing_that_a_terminal_obeys() -> None:
    rows = Rows(most=None, since=NOW)
    text = rows.past([recorded("one\ntwo\x1b[2J")])
    assert len(text.splitlines()) == 2
    assert "one two\\x1b[2J" in text


@pytest.mark.parametrize(
    ("offsets", "shown"),
    [((20, 50), "20 to 49"), ((20, 21), "20"), ((20, 20), "20"), ((20, None), "20"), ((None, 50), "to 49")],
)
def test_offsets_are_those_that_an_event_is_about(offsets: tuple[int | None, int | None], shown: str) -> None:
    event = recorded("m", first_offset=offsets[0], next_offset=offsets[1])
    row = Rows(most=None, since=NOW).past([event]).splitlines()[1]
    assert re.split(r" {2,}", row)[5] == shown


def test_rows_that_come_later_line_up_with_those_before() -> None:
    rows = Rows(most=None, since=NOW)
    first = rows.past([recorded("a long way", link="a-link-with-a-long-name")])
    second = rows.live([recorded("b")])
    assert first.splitlines()[1].index("mirror-1") == second.index("mirror-1")


# -- for machines


def test_json_is_a_complete_document(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.nyc.there.write(*(ago(f"event {n}", 200 - n) for n in range(70)), ago("lost", 1, **STOP))
    assert run("--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], len(document["events"])) == ("heliograph.events/1", 71)
    last = document["events"][-1]
    assert datetime.fromisoformat(last.pop("at")).tzinfo is not None
    expected = {**STOP, "severity": "error", "link": "sf-to-nyc", "message": "lost", "target": "nyc"}
    assert last == {**expected, "host": "mirror-1", "pid": 77}
    assert run("-o", "yaml") == 0
    assert len(yaml.safe_load(capsys.readouterr().out)["events"]) == 71


@pytest.mark.usefixtures("world")
def test_without_events_documents_are_empty_and_a_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json") == 0
    assert json.loads(capsys.readouterr().out) == {"schema": "heliograph.events/1", "events": []}
    assert run("-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == {"schema": "heliograph.events/1", "events": []}
    assert run("--since", "2026-01-31") == 0
    assert capsys.readouterr().out == "no events since 2026-01-31T00:00:00+00:00\n"


@pytest.mark.parametrize("form", [Format.json, Format.yaml])
def test_a_document_is_made_of_any_portions(form: Format) -> None:
    shown = shown_as(form, follow=False, all_rows=False, since=NOW)
    told = [recorded(f"m: {n} é") for n in range(5)]
    text = shown.past(told[:2]) + shown.past(told[2:]) + shown.past_is_over()
    document = json.loads(text) if form is Format.json else yaml.safe_load(text)
    assert document == {"schema": "heliograph.events/1", "events": [event.document for event in told]}


# -- which events


def test_links_topics_and_codes_are_filtered(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.nyc.there.write(ago("up", 3), ago("lost", 2, **STOP), ago("of a run", 1, link=None))
    world.tokyo.there.write(ago("tokyo", 1, link="sf-to-tokyo"))

    def shown(*arguments: str) -> list[str]:
        assert run(*arguments, "--json") == 0
        return [event["message"] for event in json.loads(capsys.readouterr().out)["events"]]

    assert shown() == ["up", "lost", "of a run", "tokyo"]
    world.asked.clear()
    assert shown("sf-to-nyc") == shown("--link", "sf-to-nyc") == ["up", "lost"]
    assert world.asked == ["nyc", "nyc"]
    assert shown("sf-to-nyc", "--link", "sf-to-tokyo") == ["up", "lost", "tokyo"]
    assert shown("--topic", "orders:3") == shown("--code", "lost") == ["lost"]
    assert shown("--topic", "orders:2") == []
    assert shown("--since", "90s") == ["of a run", "tokyo"]


def test_a_topic_that_is_not_mirrored_now_is_looked_for_and_told(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.nyc.there.write(ago("old", 1, source_topic="payments"))
    assert run("--topic", "payments") == 0
    printed = capsys.readouterr()
    assert "old" in printed.out
    assert printed.err == "warning: no link that is meant mirrors topic payments now\n"


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nyc",), "hint: it has sf-to-nyc, sf-to-tokyo"),
        (("--link", "nyc"), "the config has no link 'nyc'"),
        (("--code", "losst"), "hint: near it: lost"),
        (("--since", "soon"), "neither an age nor a time"),
        (("--topic", "orders:x"), "is no topic"),
        (("-f", "absent.yaml"), "absent.yaml does not exist"),
        (("-o", "xml"), "xml"),
    ],
)
def test_wrong_use_exits_2(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert message in capsys.readouterr().err


# -- clusters


def test_a_topic_that_is_not_there_is_said_and_no_failure(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.nyc.log = world.tokyo.log = None
    assert run() == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("no events since ")
    assert printed.err.count("topic __heliograph_events is not there: no run has told anything yet") == 2


def test_a_cluster_that_is_away_exits_3_and_the_others_are_shown(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.nyc.there.write(ago("here", 1))
    world.tokyo.connects = [ClusterUnreachable("tokyo does not answer", hint="is it up?")] * 2
    assert run("--json") == 3
    printed = capsys.readouterr()
    assert [event["message"] for event in json.loads(printed.out)["events"]] == ["here"]
    assert printed.err == "error: tokyo does not answer\nhint: is it up?\n"
    assert run("sf-to-tokyo") == 3
    assert capsys.readouterr().out == ""
    assert world.nyc.closed
    assert world.tokyo.closed


def test_a_missing_right_exits_1_with_the_line_that_grants_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.nyc.there.fails = [refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    world.nyc.there.write(ago("hidden"))
    assert run("sf-to-nyc") == 1
    assert "hint: grant READ: kafka-acls.sh --grant-on-nyc" in capsys.readouterr().err


# -- following


class Follower:
    """Runs the command with --follow, and does `then` when it has begun; the command ends by a signal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: signal.Signals = signal.SIGTERM) -> None:
        self._out, self._err = io.StringIO(), io.StringIO()
        monkeypatch.setattr("sys.stdout", self._out)
        monkeypatch.setattr("sys.stderr", self._err)
        self._number = number

    @property
    def out(self) -> str:
        return self._out.getvalue()

    @property
    def err(self) -> str:
        return self._err.getvalue()

    def run(self, *arguments: str, then: Callable[[], None]) -> int:
        def play() -> None:
            try:
                then()
            finally:
                os.kill(os.getpid(), self._number)

        thread = threading.Thread(target=play)
        thread.start()
        code = run("--follow", *arguments)
        thread.join()
        return code

    def until(self, words: str) -> None:
        """It is printed by now."""
        self.until_true(lambda: words in self.out)

    def until_true(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not true():
            assert time.monotonic() < deadline, (self.out, self.err)
            time.sleep(0.005)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_goes_on_until_a_signal_and_exits_0(
    number: signal.Signals, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(monkeypatch, number)
    world.nyc.there.write(ago("before", 1))

    def then() -> None:
        follower.until("before")
        world.nyc.there.write(ago("while it follows"))
        follower.until("while it follows")
        log = world.nyc.there
        log.fails = [Disconnected("no answer")] * 20
        follower.until_true(lambda: len(log.fails) < 20)
        log.write(ago("while it was away"))
        follower.until("while it was away")

    assert follower.run(then=then) == 0
    assert [line.rpartition("  ")[2] for line in follower.out.splitlines()[1:]] == [
        "before",
        "while it follows",
        "while it was away",
    ]
    assert follower.err.count("it is tried again") == 1
    assert world.nyc.closed


@pytest.mark.usefixtures("signals")
def test_following_as_json_is_an_object_a_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(monkeypatch)
    world.nyc.there.write(*(ago(f"before {n}", 1) for n in range(60)))

    def then() -> None:
        follower.until("before 59")
        world.tokyo.there.write(ago("after\nwards"))
        follower.until("wards")

    assert follower.run("--json", then=then) == 0
    told = [json.loads(line)["message"] for line in follower.out.splitlines()]
    assert sorted(told[:60]) == sorted(f"before {n}" for n in range(60))
    assert told[60:] == ["after\nwards"]


@pytest.mark.usefixtures("signals")
def test_following_as_yaml_is_a_document_for_each(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(monkeypatch)
    world.nyc.there.write(ago("before", 2), ago("too", 1))
    assert follower.run("-o", "yaml", then=lambda: follower.until("too")) == 0
    assert [each["message"] for each in yaml.safe_load_all(follower.out)] == ["before", "too"]


@pytest.mark.usefixtures("signals")
def test_following_begins_where_there_is_nothing_yet(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(monkeypatch)
    world.nyc.log = None

    def then() -> None:
        follower.until("no events since")
        world.nyc.make_topic(ago("the first"))
        follower.until("the first")

    assert follower.run("sf-to-nyc", then=then) == 0
    assert "told by" in follower.out
