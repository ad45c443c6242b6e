"""Values of production code with fields that are about to be added: filled in as soon as they are there.

The one place that knows which; it goes when they have come.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from heliograph.cluster.log_reads import Batches, ProducerState
from heliograph.controller.snapshot import PartitionSight
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import BatchHeader
from heliograph.wire.fetch import FetchedPartition

from .answers import ProducerView

Aborted = tuple[tuple[int, int], ...]


class Label(Protocol):
    """model.marker_label.MarkerLabel."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def coordinator_epoch(self) -> int: ...


class LabelledMarker(Protocol):
    """cluster.markers.Marker."""

    @property
    def where(self) -> TopicPartition: ...
    @property
    def label(self) -> Label: ...


def state_of(view: ProducerView) -> ProducerState:
    known = {
        "epoch": view.epoch,
        "last_sequence": view.last_sequence,
        "last_timestamp": view.last_timestamp,
        "transaction_start": view.transaction_start,
        "coordinator_epoch": view.coordinator_epoch,
    }
    return ProducerState(**{name: known[name] for name in ProducerState.__dataclass_fields__})


def sight_of(**known: Any) -> PartitionSight:
    return PartitionSight(
        **{name: value for name, value in known.items() if name in PartitionSight.__dataclass_fields__}
    )


def batches_of(found: Sequence[tuple[BatchHeader, memoryview]], aborted: Aborted) -> Batches:
    new: dict[str, Any] = {"aborted": aborted} if "aborted" in Batches.__dataclass_fields__ else {}
    return Batches(headers=tuple(each[0] for each in found), views=tuple(each[1] for each in found), **new)


def with_aborted(partition: FetchedPartition, aborted: Aborted) -> FetchedPartition:
    new: dict[str, Any] = {"aborted": aborted} if "aborted" in FetchedPartition._fields else {}
    return partition._replace(**new)


def blocks_of(offsets: int) -> list[tuple[Any, str, int]]:
    """How many offsets a block of marker labels is to have, as a patch of the one constant."""
    name = "heliograph.model.marker_label"
    return [(import_module(name), "BLOCK_OFFSETS", offsets)] if find_spec(name) else []
