"""Which partitions begin where `start` says: those that were there when the link first ran, and are the same still."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.controller import beginnings
from heliograph.controller.at_first import AtFirst
from heliograph.controller.beginnings import resolve_beginnings
from heliograph.controller.plan import Plan
from heliograph.model.clock import time_of_day
from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import LinkPolicy
from heliograph.model.start import LATEST
from heliograph.model.states import StopReason

from .observed import LINK, copy, partition

GOAL = 40


@pytest.fixture(autouse=True)
def _resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolved(
        _source: object, policies: Mapping[MirrorPartition, LinkPolicy], _now: object
    ) -> dict[MirrorPartition, int]:
        return dict.fromkeys(policies, GOAL)

    monkeypatch.setattr(beginnings, "_resolve", resolved)


def planned() -> Plan:
    new = copy(partition(link=LINK.name))
    spec = replace(new.spec, policy=replace(new.spec.policy, start=LATEST))
    return Plan(creations=(), copies=(replace(new, spec=spec),), refusals=(), warnings=())


@pytest.mark.parametrize(
    ("known_id", "partitions", "goals"),
    [("now", 1, [GOAL]), ("", 1, [GOAL]), ("before", 1, []), ("now", 0, [])],
)
async def test_a_topic_that_came_later_or_was_created_again_begins_at_its_first_record(
    known_id: str, partitions: int, goals: list[int]
) -> None:
    topic = planned().copies[0].spec.partition.source_topic
    at_first = AtFirst(partitions={topic: partitions}, ids={topic: known_id})
    found = await resolve_beginnings(
        lambda _link: cast(ClusterClient, None),
        planned(),
        {LINK.name: at_first},
        {LINK.name: {topic: "now"}},
        time_of_day(),
    )
    assert list(found.goals.values()) == goals
    assert len(found.todo.copies) == 1


async def test_without_a_ledger_a_start_is_refused() -> None:
    found = await resolve_beginnings(
        lambda _link: cast(ClusterClient, None), planned(), {}, {LINK.name: {}}, time_of_day()
    )
    assert found.todo.copies == ()
    assert [each.why.reason for each in found.todo.refusals] == [StopReason.LEDGER]
