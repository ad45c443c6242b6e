"""Where new partitions begin: resolved once, for what was there when the link first ran; the source is played."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import EARLIEST, LATEST
from heliograph.controller.at_first import read_at_first
from heliograph.controller.beginnings import Beginnings, resolve_beginnings, resolve_waiting
from heliograph.controller.plan import CopyPartition, Plan
from heliograph.controller.recorded import NOTHING_RECORDED, Recorded
from heliograph.model.command import CommandState
from heliograph.model.errors import Disconnected
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState, Row, RowKind, RowName
from heliograph.model.policy import Isolation
from heliograph.model.states import StopReason
from heliograph.wire.api_keys import ApiKey
from tests.cluster.counted_cluster import CountedCluster, PlayedLog

from .observed import LINK, SF_ID, copy, partition
from .source_fake import Source

NOW = datetime(2026, 3, 8, 12, 0, tzinfo=UTC)
DAY_MS = 86_400_000
NOW_MS = int(NOW.timestamp() * 1000)


class PlayedSource(Source):
    """Offsets 10 to 90, the last stable one is 80. `batches`: base offset to timestamp; the one that a time leads to
    holds `found`."""

    def __init__(self, batches: dict[int, int] | None = None, *, found: int = -1, alive: bool = True) -> None:
        super().__init__(batches, alive=alive)
        self.found = found
        self.times: list[int] = []

    async def call(self, _node: int, request: Any, _response: object) -> Any:
        if not self.alive:
            raise Disconnected("broker 0 is gone")
        asked = request.topics[0].partitions[0]
        end = 80 if request.isolation_level else 90
        fixed = {EARLIEST: 10, LATEST: end}
        if asked.timestamp not in fixed:
            self.times.append(asked.timestamp)
        answer = SimpleNamespace(
            partition_index=asked.partition_index,
            error_code=0,
            offset=fixed.get(asked.timestamp, self.found),
            timestamp=-1,
            leader_epoch=3,
        )
        return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[answer])])


def new(number: int = 0, start: str = "latest", **policy: Any) -> CopyPartition:
    made = copy(partition(number), next_offset=0)
    return replace(made, spec=replace(made.spec, policy=replace(made.spec.policy, start=start, **policy)))


def first_ran(topics: dict[str, int]) -> Recorded:
    state = LedgerState()
    name = RowName(source_cluster_id=SF_ID, target_topic=LINK.name, partition=WHOLE_TOPIC, kind=RowKind.LINK)
    state.put(Row(name=name, term=0, fields={"at": "", "topics": topics}))
    return Recorded(state, CommandState(), SF_ID)


async def resolved(
    *copies: CopyPartition, source: Source | None = None, recorded: Recorded | None = NOTHING_RECORDED
) -> Beginnings:
    client = cast(ClusterClient, source or PlayedSource())
    todo = Plan(creations=(), copies=copies, refusals=(), warnings=())
    kept = {} if recorded is None else {LINK.name: read_at_first(recorded._state, SF_ID, LINK.name)}
    return await resolve_beginnings(lambda _link: client, todo, kept, {LINK.name: {}}, NOW)


async def goal_of(start: str, source: Source | None = None, **policy: Any) -> int:
    found = await resolved(new(start=start, **policy), source=source)
    (made,) = found.todo.copies
    goal = found.goals[partition()]
    assert (made.spec.begin_at, made.align_to) == (goal, goal)
    return goal


async def test_latest_is_what_a_consumer_may_read_up_to() -> None:
    assert await goal_of("latest", isolation=Isolation.READ_UNCOMMITTED) == 90
    assert await goal_of("latest", isolation=Isolation.READ_COMMITTED) == 80


async def test_a_time_is_the_first_record_of_the_batch_that_holds_it() -> None:
    source = PlayedSource({40: 0}, found=40)
    assert await goal_of("2026-03-01T12:00:00Z", source) == 40
    assert source.times == [NOW_MS - 7 * DAY_MS]


async def test_an_age_counts_from_now() -> None:
    source = PlayedSource({40: 0}, found=40)
    assert await goal_of("-7d", source) == 40
    assert source.times == [int((NOW - timedelta(days=7)).timestamp() * 1000)]


@pytest.mark.parametrize("found", [-1, 85])
async def test_a_time_that_no_record_has_reached_is_the_end(found: int) -> None:
    assert await goal_of("-1s", PlayedSource(found=found), isolation=Isolation.READ_COMMITTED) == 80


async def test_everything_is_asked_of_nobody() -> None:
    found = await resolved(new(start="earliest"), source=PlayedSource(alive=False))
    assert (found.goals, [each.spec.begin_at for each in found.todo.copies]) == ({}, [None])


async def test_what_is_written_down_or_has_begun_is_not_resolved_again() -> None:
    known = new()
    known = replace(known, spec=replace(known.spec, begin_at=33))
    begun = replace(new(1), next_offset=7)
    found = await resolved(known, begun, source=PlayedSource(alive=False))
    assert found.goals == {}
    assert found.todo.copies == (known, begun)


async def test_what_is_aligned_already_but_has_no_goal_is_resolved() -> None:
    """The source starts above 0, and the target has fillers of its own."""
    found = await resolved(replace(new(), next_offset=4, align_to=10))
    assert found.goals == {partition(): 80}
    assert found.todo.copies[0].align_to == 80


async def test_later_topics_and_partitions_begin_at_their_first_record() -> None:
    found = await resolved(new(0), new(1), recorded=first_ran({"orders": 1}))
    assert found.goals == {partition(0): 80}
    assert [each.spec.begin_at for each in found.todo.copies] == [80, None]
    (warning,) = found.todo.warnings
    assert "topic orders has come, or has grown" in warning
    assert "start: latest" in warning
    assert (await resolved(new(), recorded=first_ran({"clicks": 4}))).goals == {}


async def test_without_a_ledger_a_start_is_refused_and_everything_else_copied() -> None:
    found = await resolved(new(0), new(1, "earliest"), recorded=None)
    assert [each.spec.partition for each in found.todo.copies] == [partition(1)]
    (refused,) = found.todo.refusals
    assert (refused.partition, refused.why.reason) == (partition(0), StopReason.LEDGER)
    assert "__heliograph_" in refused.why.hint


async def test_a_source_that_cannot_be_read_is_refused_and_has_no_goal() -> None:
    found = await resolved(new(), source=PlayedSource(alive=False))
    assert (found.goals, found.todo.copies) == ({}, ())
    (refused,) = found.todo.refusals
    assert refused.why.reason is StopReason.LEDGER
    assert "cannot be resolved" in refused.why.message


async def test_where_many_partitions_begin_takes_few_requests() -> None:
    brokers, partitions = 3, 600
    source = CountedCluster("sf", brokers, {"orders": [PlayedLog(end=90, stable_end=80)] * partitions})
    async with source.running(), source.client() as client:
        source.asked.clear()
        policy = replace(new().spec.policy, start="latest")
        goals = await resolve_waiting(client, {partition(n): policy for n in range(partitions)}, NOW)
    assert goals == {partition(n): 80 for n in range(partitions)}
    assert [source.counts()[node, ApiKey.LIST_OFFSETS] for node in range(brokers)] == [4] * brokers
