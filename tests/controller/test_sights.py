"""Sights: both ends of a partition fit together, or its lane is left to judge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.admin import DescribeProducersRequest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import EARLIEST, OURSELVES
from heliograph.cluster.metadata import Leader
from heliograph.controller.plan import plan
from heliograph.controller.sights import BEING_WRITTEN, Pair, read_sights
from heliograph.controller.snapshot import PartitionSight
from heliograph.model.errors import Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.model.producer_id import producer_id

from .observed import SF_ID, snapshot, source_topic, target_topic

WHERE = TopicPartition("orders", 0)


class Both:
    """A source and its emptied mirror. Between any two questions to the target `written` records pass through both.

    Both are one log seen twice: records that retention has taken from the target leave only its end to be read.
    """

    def __init__(self, end: int, *, written: int = 0, unreplicated: int = 0, fails: str = "") -> None:
        self.end, self.written, self.unreplicated, self.fails = end, written, unreplicated, fails
        self.asked: list[str] = []

    def client(self, name: str) -> ClusterClient:
        fake = SimpleNamespace(
            name=name,
            metadata=SimpleNamespace(cluster_id=SF_ID, topics={}),
            properties=SimpleNamespace(request_timeout_ms=1000),
            leader=lambda _where: Leader(0, 3),
            call=lambda _node, request, _response, **_: self._call(name, request),
            refresh=self._refresh,
        )
        return cast(ClusterClient, fake)

    async def _refresh(self) -> None:
        """Nothing has moved."""

    async def _call(self, name: str, request: Any) -> Any:
        self.asked.append(name)
        if name == self.fails:
            raise Disconnected(f"{name} is gone")
        if isinstance(request, DescribeProducersRequest):
            answer = self._producers()
            self.end += self.written
        else:
            answer = self._offset(name, request)
        return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[answer])])

    def _producers(self) -> Any:
        ours = SimpleNamespace(
            producer_id=producer_id(SF_ID, "orders"),
            producer_epoch=0,
            last_sequence=self.end - 1,
            last_timestamp=0,
            current_txn_start_offset=-1,
            coordinator_epoch=-1,
        )
        return SimpleNamespace(partition_index=0, error_code=0, active_producers=[ours])

    def _offset(self, name: str, request: Any) -> Any:
        timestamp = request.topics[0].partitions[0].timestamp
        emptied_to = self.end - self.unreplicated
        if timestamp == EARLIEST:
            return SimpleNamespace(partition_index=0, error_code=0, offset=emptied_to if name == "nyc" else 0)
        short = self.unreplicated if name == "nyc" and request.replica_id != OURSELVES else 0
        return SimpleNamespace(partition_index=0, error_code=0, offset=self.end - short)


async def see(both: Both, *, there: TopicPartition | None = WHERE) -> PartitionSight:
    wanted = Pair(source=WHERE, target=there, own_id=producer_id(SF_ID, "orders"), committed=True)
    return (await read_sights(both.client("sf"), both.client("nyc"), [wanted]))[WHERE]


def refusals(sight: PartitionSight) -> int:
    return len(plan([snapshot(source_topic(sights=[sight]), targets=[target_topic()])]).refusals)


async def test_a_mirror_at_rest_is_seen_with_both_ends() -> None:
    sight = await see(Both(60))
    assert sight.unreadable is None
    assert sight.source is not None
    assert sight.target is not None
    assert (sight.source.end, sight.source_end, sight.target.end) == (60, 60, 60)
    assert sight.producer is not None
    assert sight.producer.last_sequence == 59
    assert refusals(sight) == 0


async def test_a_target_that_an_older_lane_still_writes_is_left_to_its_lane() -> None:
    sight = await see(Both(60, written=5))
    assert sight.unreadable == BEING_WRITTEN
    assert sight.target is not None  # good enough for a lag
    assert refusals(sight) == 0


async def test_a_target_whose_last_records_are_not_on_all_replicas_yet_is_left_to_its_lane() -> None:
    sight = await see(Both(60, unreplicated=3))
    assert sight.unreadable == BEING_WRITTEN
    assert refusals(sight) == 0


async def test_the_source_is_read_last_so_that_it_holds_all_that_was_copied() -> None:
    both = Both(60, written=5)
    sight = await see(both)
    assert both.asked == sorted(both.asked)  # all of nyc, then all of sf
    assert sight.source is not None
    assert sight.target is not None
    assert sight.source.end >= sight.target.end


async def test_a_target_that_cannot_be_read_leaves_the_source_seen() -> None:
    sight = await see(Both(60, fails="nyc"))
    assert (sight.unreadable, sight.target, sight.source_end) == ("nyc is gone", None, 60)


async def test_a_source_that_cannot_be_read_is_told() -> None:
    sight = await see(Both(60, fails="sf"))
    assert (sight.unreadable, sight.source) == ("sf is gone", None)


@pytest.mark.parametrize("written", [0, 5])
async def test_a_topic_that_is_not_on_the_target_needs_no_settled_target(written: int) -> None:
    sight = await see(Both(60, written=written), there=None)
    assert (sight.unreadable, sight.target, sight.source_end) == (None, None, 60)
