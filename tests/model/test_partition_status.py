"""How a partition stands: the same value on both ends of every encoding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.model.events import Event
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import (
    Aligning,
    PartitionStatus,
    decode_document,
    decode_row,
    encode_document,
    encode_row,
    published,
)
from heliograph.model.states import BoundBy, PartitionState, StopReason

P0 = MirrorPartition("sf-to-nyc", "orders", "sf.orders", 0)

words = st.text(max_size=20)
offsets = st.integers(0, (1 << 63) - 1)
told_by_lanes: dict[str, st.SearchStrategy[Any]] = {
    "partition": st.builds(MirrorPartition, words, words, words, st.integers(0, 10_000)),
    "state": st.sampled_from(PartitionState),
    "next_offset": st.none() | offsets,
    "source_end": st.none() | offsets,
    "records": offsets,
    "size_bytes": offsets,
    "reason": st.none() | st.sampled_from(StopReason),
    "error": st.none() | words,
    "hint": st.none() | words,
    "trouble": st.none() | words,
    "event": st.none() | st.sampled_from(Event),
    "bound_by": st.none() | st.sampled_from(BoundBy),
    "aligning": st.none()
    | st.builds(
        Aligning, words, offsets, offsets, st.none() | st.floats(0, 1e9), st.none() | st.integers(0, 9)
    ),
    "filled": offsets,
    "filling_s": st.floats(0, 1e9),
}
told_by_drivers: dict[str, st.SearchStrategy[Any]] = {
    "lane": st.none() | st.integers(0, 99),
    "goal": st.none() | offsets,
    "held_by": st.none() | words,
    "refused": st.booleans(),
    "compared": st.booleans(),
}


def statuses(known: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[PartitionStatus]:
    return st.fixed_dictionaries(known).map(lambda values: PartitionStatus(**values))


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@settings(deadline=None, max_examples=50)
@given(statuses(told_by_lanes))
def test_what_a_lane_tells_is_the_same_at_the_driver(status: PartitionStatus) -> None:
    decoded = decode_row(through_json(encode_row(status)))
    assert decoded == status
    assert type(decoded.partition) is MirrorPartition  # a key again
    assert isinstance(decoded.state, PartitionState)
    assert decoded.aligning is None or type(decoded.aligning) is Aligning


@settings(deadline=None, max_examples=50)
@given(statuses({**told_by_lanes, **told_by_drivers}))
def test_what_a_driver_tells_is_the_same_for_whoever_asks(status: PartitionStatus) -> None:
    assert decode_document(through_json(encode_document(status))) == status


def test_a_row_holds_what_a_lane_knows_and_nothing_else() -> None:
    status = PartitionStatus(
        partition=P0, lane=3, goal=7, held_by="another", refused=True, compared=True, lag_ms=5
    )
    assert decode_row(encode_row(status)) == PartitionStatus(partition=P0)


@pytest.mark.parametrize("row", [[], encode_row(PartitionStatus(partition=P0))[:-1]])
def test_a_row_of_another_length_is_refused(row: list[Any]) -> None:
    with pytest.raises(ValueError, match="a row of"):
        decode_row(row)


def test_what_a_mirror_of_another_version_says_is_taken_as_far_as_it_goes() -> None:
    document = {"key": list(P0), "state": "copying", "lane": 3, "of a later release": 1}
    assert decode_document(document) == PartitionStatus(partition=P0, state=PartitionState.COPYING, lane=3)


@pytest.mark.parametrize(
    "document", [{"state": "copying"}, {"key": [1]}, {"key": list(P0), "state": "asleep"}]
)
def test_what_cannot_be_a_partitions_status_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        decode_document(document)


def test_what_is_published_of_an_alignment_has_names() -> None:
    status = PartitionStatus(partition=P0, aligning=Aligning("fill", 5, 10, eta_s=2.5))
    assert published(status)["aligning"] == {
        "phase": "fill",
        "done": 5,
        "total": 10,
        "eta_s": 2.5,
        "replicas_clean": None,
    }
    assert published(PartitionStatus(partition=P0))["aligning"] is None


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"error": "lost", "held_by": "b", "trouble": "away"}, "lost"),
        (
            {"held_by": "b", "trouble": "away"},
            "it is held by b; this run takes it over when that one ends",
        ),
        ({"trouble": "away"}, "away"),
        ({}, None),
    ],
)
def test_the_problem_is_what_needs_an_operator_most(said: dict[str, str], problem: str | None) -> None:
    assert published(PartitionStatus(partition=P0, **said))["error"] == problem  # type: ignore[arg-type]


@given(source_end=st.none() | st.integers(0, 9), next_offset=st.none() | st.integers(0, 9))
def test_a_lag_is_known_where_both_ends_are(source_end: int | None, next_offset: int | None) -> None:
    status = PartitionStatus(partition=P0, source_end=source_end, next_offset=next_offset)
    assert (status.lag_records is None) == (source_end is None or next_offset is None)
    assert status.behind == max((source_end or 0) - (next_offset or 0), 0)
