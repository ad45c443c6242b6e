"""Planted bugs, fourth part: gaps are filled wrongly, or a new partition is aligned wrongly.

They are found as soon as plans have gaps (gap_plan.py). What is patched is looked up when a bug is planted.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any
from unittest.mock import patch

from .gap_plans import (
    aligned,
    behind_gaps,
    handed_on,
    handed_on_and_refused,
    in_transactions,
    refused_in_bulk,
    without_room,
)
from .planted_bug import Planted

NO_END = 1 << 60


def _part(name: str) -> Any:
    return import_module(f"heliograph.{name}")


def _attempts_begin_anew() -> list[Any]:
    """Nothing is reserved: every holder begins with the same attempt."""
    filling = _part("copier.fill").Filling

    def granted(self: Any, attempt: int) -> None:
        self._attempt = attempt

    return [
        patch.object(_part("controller.cells").Cells, "_next", lambda *_: 1),
        patch.object(filling, "granted", granted),
        patch.object(filling, "synced", lambda *_: None),
        patch.object(filling, "spent", lambda *_: None),
    ]


def _the_answer_counts() -> list[Any]:
    """The log's end is not read back: no error means that all is there."""
    fills = _part("copier.fills")
    problem_of = fills._problem_of

    def none_without_error(stretch: Any, written: Any) -> Any:
        return problem_of(stretch, written) if written.code else None

    return [patch.object(fills, "_problem_of", none_without_error)]


def _requests_cross_borders() -> list[Any]:
    return [patch.object(_part("copier.fill"), "block_end", lambda _offset: NO_END)]


def _gaps_end_where_answers_do() -> list[Any]:
    """A partition of which an answer holds nothing is taken for one that has nothing to copy up to the stable end."""
    queue, gap = _part("copier.source_queue").SourceQueue, _part("copier.batches").SourceGap
    take_in = queue.take_in

    def infer(self: Any, reply: Any, *what: Any, **how: Any) -> None:
        if not reply.records and not self._batches and reply.last_stable_offset > self.fetch_offset:
            self._batches.append(gap(self.fetch_offset, reply.last_stable_offset))
            self.fetch_offset = reply.last_stable_offset
        else:
            take_in(self, reply, *what, **how)

    return [patch.object(queue, "take_in", infer)]


def _sequences_are_offsets() -> list[Any]:
    facts = _part("model.admission").PartitionFacts
    return [patch.object(facts, "next_sequence", property(lambda self: self.target_end))]


def _aborted_in_the_order_told() -> list[Any]:
    return [patch.object(_part("wire.aborted"), "sorted", lambda each, **_: list(each), create=True)]


def _nothing_is_aborted() -> list[Any]:
    return [patch.object(_part("wire.aborted").AbortedFilter, "is_aborted", lambda *_: False)]


def _all_is_deleted() -> list[Any]:
    """Up to wherever the copy stands, not up to the goal."""

    def before(copy: Any) -> int | None:
        sends = copy.phase in _part("copier.phases").SENDING
        return copy.durable.target if sends and copy.durable and copy.durable.target else None

    return [patch.object(_part("copier.partition_copy").PartitionCopy, "delete_before", property(before))]


def _over_when_filled() -> list[Any]:
    """The first record does not wait until the fillers are deleted."""
    copier = _part("copier.partition_copy").PartitionCopy
    fetched = copier.fetched

    def go_on(copy: Any, *what: Any, **how: Any) -> None:
        if copy._alignment is not None and copy.durable and copy._alignment.is_filled(copy.durable):
            copy._alignment = None
        fetched(copy, *what, **how)

    return [patch.object(copier, "fetched", go_on)]


def _bug(rule: str, without: str, patches: Callable[[], list[Any]], change: Any) -> Planted:
    return Planted(rule=rule, without=without, patches=patches, change=change)


GAPS = (
    _bug(
        "gap, attempt",
        "an attempt at a gap is used by two holders of a partition",
        _attempts_begin_anew,
        lambda plan: handed_on(plan, "some aborted", "one after the other"),
    ),
    _bug(
        "gap, end",
        "a marker that is refused inside a bulk is taken for written",
        _the_answer_counts,
        refused_in_bulk,
    ),
    _bug(
        "gap, border",
        "a request for markers crosses the border of a block, where nothing compares the next one",
        _requests_cross_borders,
        handed_on_and_refused,
    ),
    _bug(
        "gap, seen",
        "a gap is inferred from an answer that holds nothing",
        _gaps_end_where_answers_do,
        without_room,
    ),
    _bug(
        "gap, sequence",
        "behind a gap the sequence is taken from the log's end",
        _sequences_are_offsets,
        behind_gaps,
    ),
    _bug(
        "aborted",
        "records of aborted transactions are copied",
        _nothing_is_aborted,
        lambda plan: in_transactions(plan, "some aborted"),
    ),
    _bug(
        "aborted, order",
        "aborted transactions are taken in the order in which brokers tell them",
        _aborted_in_the_order_told,
        lambda plan: in_transactions(plan, "long ones", index_bytes=4096),
    ),
    _bug(
        "alignment, goal",
        "records above the goal are deleted",
        _all_is_deleted,
        aligned,
    ),
    _bug(
        "alignment, first",
        "the first record is appended while fillers can be read",
        _over_when_filled,
        aligned,
    ),
)
