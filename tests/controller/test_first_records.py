"""New partitions of compacted topics begin at their first record where that is far away; both clusters are played."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.controller import first_records as under_test
from heliograph.controller.first_records import first_records
from heliograph.controller.plan import CopyPartition, Plan
from heliograph.model.errors import Disconnected
from heliograph.wire.dense import MOST_OFFSETS
from heliograph.wire.error_codes import ErrorCode

from .observed import copy, partition, snapshot, source_sight, source_topic, span
from .source_fake import Source

FAR = 5_000_000_000


class Sparse(Source):
    """Its log starts at 0, and its first batch is `first`."""

    def __init__(self, first: int | None, **how: Any) -> None:
        super().__init__({first: 0} if first is not None else {}, **how)

    async def call(self, _node: int, request: Any, _response: object) -> Any:
        if not self.alive:
            raise Disconnected("broker 0 is gone")
        asked = request.topics[0].partitions[0]
        answer = SimpleNamespace(
            partition_index=asked.partition_index, error_code=0, offset=0, timestamp=-1, leader_epoch=3
        )
        return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[answer])])


def built(**changed: Any) -> CopyPartition:
    made = copy(partition(0), next_offset=0)
    return replace(made, spec=replace(made.spec, **{"builds": True, **changed}))


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the target says to a trial of deleting."""
    said = {"orders": 0}

    async def tried(_client: object, topics: set[str]) -> dict[str, int]:
        return dict.fromkeys(topics, said["orders"])

    monkeypatch.setattr(under_test, "try_deleting_records", tried)
    return said


async def found(source: Source, todo: CopyPartition, target_end: int | None = None) -> list[int]:
    sight = source_sight(0, FAR + 1)
    if target_end is not None:
        sight = replace(sight, target=span(0, target_end))
    seen = snapshot(source_topic(sights=[sight]))
    client = cast(ClusterClient, source)
    plan = Plan(creations=(), copies=(todo,), refusals=(), warnings=())
    return list((await first_records(client, client, seen, plan)).values())


async def test_the_first_batch_is_the_goal(code: dict[str, int]) -> None:
    assert code["orders"] == 0
    assert await found(Sparse(FAR), built()) == [FAR]
    assert await found(Sparse(FAR), built(), target_end=0) == [FAR]


@pytest.mark.parametrize(
    ("source", "changed", "target_end"),
    [
        (Sparse(MOST_OFFSETS), {}, None),  # one batch of fillers more
        (Sparse(None), {}, None),  # an empty log
        (Sparse(FAR, alive=False), {}, None),
        (Sparse(FAR), {"builds": False}, None),
        (Sparse(FAR), {"begin_at": 7}, None),  # written down before: compaction has gone on since
        (Sparse(FAR), {}, 1),  # begun without a goal
    ],
    ids=["near", "empty", "away", "not built", "known", "begun"],
)
async def test_holes_are_filled_where_a_goal_pays_nothing_or_may_not_be_chosen(
    code: dict[str, int], source: Source, changed: dict[str, Any], target_end: int | None
) -> None:
    assert code["orders"] == 0
    assert await found(source, built(**changed), target_end) == []


async def test_who_may_not_delete_fills_holes(code: dict[str, int]) -> None:
    code["orders"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await found(Sparse(FAR), built()) == []
