"""Assignments through JSON and back, and what a lane tells of a partition."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.copier.lane_clusters import LinkClusters
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.resync import Synced
from heliograph.copier.spec import CopySpec
from heliograph.engine.assignment import (
    SPECS_PER_FRAME,
    decode_links,
    decode_specs,
    encode_assignment,
    progress_of,
)
from heliograph.engine.frames import FRAME_LIMIT, Message, encode
from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.fill_way import FillWay
from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import Isolation, LinkPolicy
from heliograph.model.position import Position
from heliograph.model.states import PartitionState, StopReason

LONGEST_TOPIC = "t" * 249

names = st.text(min_size=1, max_size=20)
offsets = st.integers(0, (1 << 63) - 1)
partitions = st.builds(MirrorPartition, names, names, names, st.integers(0, 10_000))
specs = st.builds(
    CopySpec,
    partition=partitions,
    source=names,
    target=names,
    target_cluster_id=names,
    producer_id=offsets,
    max_batch_bytes=st.integers(0, 1 << 31),
    policy=st.builds(LinkPolicy),
    begin_at=st.none() | offsets,
    accepted_loss=st.none() | st.tuples(offsets, offsets),
    fill_way=st.sampled_from(FillWay),
    source_cluster_id=names,
)
properties = st.dictionaries(names, names, max_size=4)
link_clusters = st.builds(
    LinkClusters,
    link=names,
    source=names,
    target=names,
    source_properties=properties,
    target_properties=properties,
)


def over_the_line(message: Message) -> Message:
    received = json.loads(encode(message)[4:])
    assert isinstance(received, dict)
    return received


def spec_of(topic: str, partition: int) -> CopySpec:
    return CopySpec(
        partition=MirrorPartition("sf-to-nyc", topic, topic, partition),
        source="sf",
        target="nyc",
        target_cluster_id="nyc-id",
        producer_id=(1 << 63) - 1,
        max_batch_bytes=1 << 20,
    )


@settings(deadline=None, max_examples=50)
@given(links=st.lists(link_clusters, max_size=3), wanted=st.lists(specs, max_size=5))
def test_an_assignment_is_the_same_on_the_other_side(
    links: list[LinkClusters], wanted: list[CopySpec]
) -> None:
    first, *rest = [over_the_line(message) for message in encode_assignment(links, wanted)]
    assert first["type"] == "links"
    assert decode_links(first) == links
    assert all(message["type"] == "assign" for message in rest)
    assert [spec for message in rest for spec in decode_specs(message)] == wanted


def test_a_decoded_partition_is_a_key_again() -> None:
    message = over_the_line(encode_assignment([], [spec_of("orders", 7)])[1])
    (decoded,) = decode_specs(message)
    assert {decoded.partition: 1}[MirrorPartition("sf-to-nyc", "orders", "orders", 7)] == 1
    assert decoded.partition.source.topic == "orders"


def test_a_decoded_policy_is_typed_again() -> None:
    (decoded,) = decode_specs(over_the_line(encode_assignment([], [spec_of("orders", 7)])[1]))
    assert decoded.policy.isolation is Isolation.READ_COMMITTED
    assert decoded.fill_way is FillWay.MARKERS


def test_ten_thousand_partitions_with_the_longest_names_fit_the_line() -> None:
    wanted = [spec_of(LONGEST_TOPIC, n) for n in range(10_000)]
    messages = encode_assignment([], wanted)
    assert len(messages) == 1 + 10_000 // SPECS_PER_FRAME
    assert all(len(encode(message)) <= FRAME_LIMIT for message in messages)


def test_progress_tells_why_a_partition_stopped_and_what_to_do() -> None:
    copy = PartitionCopy(spec_of("orders", 0), 1)
    copy.synced(Synced(position=Position(source=5, target=5, sequence=5)))
    copy.interrupted(Trouble(Event.BROKER_AWAY, "broker-1 is gone"))
    assert progress_of(copy, 0.0).trouble == "broker-1 is gone"
    assert progress_of(copy, 0.0).next_offset == 5
    copy.stop(PartitionStop(StopReason.LOST, "what happened", hint="what to do"))
    told = progress_of(copy, 0.0)
    assert told.state is PartitionState.STOPPED
    assert (told.reason, told.error, told.hint) == ("lost", "what happened", "what to do")
