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
    begun_later,
    behind_gaps,
    handed_on,
    handed_on_and_refused,
    in_transactions,
    losing,
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


def _goal_is_the_sources_start() -> list[Any]:
    """Where the mirror was told to begin is forgotten on the way."""

    def goal_of(_begin_at: int | None, source_start: int) -> int:
        return source_start

    parts = ("model.admission", "copier.resync", "controller.verdict")
    return [patch.object(_part(name), "goal_of", goal_of) for name in parts]


def _lost_up_to_the_end() -> list[Any]:
    """A position that cannot be fetched from means that all up to the source's end is gone."""
    return [patch.object(_part("model.admission"), "_accepted_to", lambda facts: facts.source_end)]


def _losses_are_not_told() -> list[Any]:
    losses = _part("copier.losses").Losses
    found = losses.found

    def quietly(self: Any, position: int, lost_to: int | None) -> None:
        found(self, position, lost_to)
        self.untold = False

    return [patch.object(losses, "found", quietly)]


def _losses_are_filled_at_once() -> list[Any]:
    """As other gaps are, behind records that the broker compares."""

    def must_be_clear(copy: Any, fill: Any) -> bool:
        known_ms = copy._state_ms
        return fill is not None and (
            fill.exclusive or known_ms is None or copy.spec.is_perishable(known_ms, copy._wall_ms)
        )

    return [patch.object(_part("copier.partition_copy").PartitionCopy, "_must_be_clear", must_be_clear)]


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
    _bug(
        "goal",
        "a mirror begins where the source does, and not where it was told to",
        _goal_is_the_sources_start,
        begun_later,
    ),
    _bug(
        "goal, deleted",
        "records above the goal are deleted that the source holds as well as those below it",
        _all_is_deleted,
        begun_later,
    ),
    _bug(
        "loss, start",
        "a loss is inferred, and not read off the source's start",
        _lost_up_to_the_end,
        losing,
    ),
    _bug(
        "loss, told",
        "a loss is filled, and nobody is told",
        _losses_are_not_told,
        losing,
    ),
    _bug(
        "loss, clear",
        "a loss is filled while lost records that a former holder has sent may still arrive",
        _losses_are_filled_at_once,
        losing,
    ),
)
