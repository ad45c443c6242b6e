"""`heliograph plan` and `status`: options, output and exit codes; the clusters are played."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliograph.controller.gap_filling import UNREAD
from heliograph.controller.plan import Plan, RefusePartition
from heliograph.controller.plan_document import plan_document
from heliograph.interface.cli import main as cli
from heliograph.interface.cli import plan, status
from heliograph.model.link_status import LinkStatus, published_link
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState
from tests.controller.observed import copy, refusal

CLUSTERS = {"sf": {"bootstrap.servers": "sf:9092"}, "nyc": {"bootstrap.servers": "nyc:9092"}}
LINKS = {"sf-to-nyc": {"source": "sf", "target": "nyc", "topics": ["orders.*"]}}
BEGUN, NEW, REFUSED = (
    MirrorPartition("sf-to-nyc", name, name, 0) for name in ("orders", "orders-new", "orders-bad")
)
IN_STEP = Plan(creations=(), copies=(copy(BEGUN, next_offset=90),), refusals=(), warnings=())


@dataclass
class World:
    """What is planned, and how a link stands."""

    planned: Plan = IN_STEP
    link: LinkStatus = field(default_factory=lambda: LinkStatus(link="sf-to-nyc"))

    def plan(self, settings: Settings, shown: PartitionFilter) -> dict[str, Any]:
        return plan_document(self.planned, settings.links, {"sf-to-nyc": UNREAD}, shown=shown)

    def status(self, _settings: Settings, shown: PartitionFilter) -> dict[str, Any]:
        kept = tuple(row for row in self.link.partitions if shown.means(row.partition))
        return {"links": [published_link(LinkStatus(link="sf-to-nyc", partitions=kept), shown)]}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    played = World()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HELIOGRAPH_CONFIG", raising=False)
    monkeypatch.setattr(plan, "_planned", played.plan)
    monkeypatch.setattr(status, "_seen", played.status)
    Path("heliograph.yaml").write_text(yaml.safe_dump({"version": 1, "clusters": CLUSTERS, "links": LINKS}))
    return played


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.usefixtures("world")
def test_a_check_of_what_is_in_step_is_0_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--check") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("link sf-to-nyc: 1 copying (lag 10)\nnothing to create, to begin or to mend\n")
    assert "orders" in printed


@pytest.mark.parametrize(
    "planned",
    [
        Plan(creations=(), copies=(copy(NEW),), refusals=(), warnings=()),
        Plan(creations=(), copies=(), refusals=(refusal(REFUSED),), warnings=()),
    ],
    ids=["begin", "refuse"],
)
def test_a_check_of_anything_to_do_is_1_in_every_form(
    world: World, planned: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    world.planned = planned
    assert run("plan") == 0
    for form in ("table", "json", "yaml"):
        assert run("plan", "--check", "-o", form) == 1
    assert "nothing to create" not in capsys.readouterr().out
    # What is hidden is to be done all the same.
    assert run("plan", "--check", "--state", "caught_up") == 1


def test_a_check_of_some_topics_is_of_them_alone(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    refused: tuple[RefusePartition, ...] = (refusal(REFUSED),)
    world.planned = Plan(creations=(), copies=IN_STEP.copies, refusals=refused, warnings=())
    assert run("plan", "--check", "--topic", "orders") == 0
    assert run("plan", "--check", "--topic", "orders-.*") == 1
    capsys.readouterr()
    assert run("plan", "--topic", "orders.*", "--lagging", "--state", "stopped", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["action"] for each in document["actions"]] == ["refuse_partition"]


def many(state: PartitionState, count: int) -> tuple[PartitionStatus, ...]:
    rows = (MirrorPartition("sf-to-nyc", "orders-many", "orders-many", number) for number in range(count))
    return tuple(PartitionStatus(partition=row, state=state, next_offset=1, source_end=1) for row in rows)


def test_status_lists_fifty_and_all_when_asked_to(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.link = LinkStatus(link="sf-to-nyc", partitions=many(PartitionState.CAUGHT_UP, 60))
    assert run("status") == 0
    short = capsys.readouterr().out
    assert (short.count("│ caught_up"), short.splitlines()[-1]) == (50, "10 more: --all")
    assert run("status", "--all") == 0
    assert capsys.readouterr().out.count("│ caught_up") == 60
    assert run("status", "--json") == 0
    (link,) = json.loads(capsys.readouterr().out)["links"]
    assert len(link["partitions"]) == 60
    assert link["summary"] == [{"state": "caught_up", "partitions": 60, "lag_records": 0}]


def test_status_exits_1_if_one_of_what_is_asked_for_is_stopped_whatever_is_listed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = PartitionStatus(partition=REFUSED, state=PartitionState.STOPPED, error="why")
    world.link = LinkStatus(link="sf-to-nyc", partitions=(stopped, *many(PartitionState.CAUGHT_UP, 2)))
    assert run("status") == 1
    assert run("status", "--state", "caught_up") == 1
    assert run("status", "--topic", "orders-many") == 0
    capsys.readouterr()
    assert run("status", "--lagging") == 1
    assert [line.split()[3] for line in capsys.readouterr().out.splitlines() if "│ sf" in line] == [
        "orders-bad"
    ]


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("command", ["plan", "status"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "payments"), "does not mirror topic payments"),
        (("--topic", "orders["), "bad regular expression"),
        (("--state", "asleep"), "asleep"),
    ],
)
def test_wrong_filters_exit_2(
    command: str, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, *words) == 2
    assert message in capsys.readouterr().err
