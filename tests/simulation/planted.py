"""Planted bugs: each rule of compare-and-append switched off in turn, by a small patch of the production code.

A simulation that finds none of them proves nothing. The table says which seed finds which, and what the judge said.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from heliograph.controller import placement
from heliograph.controller.placement import Placement
from heliograph.copier import resync
from heliograph.copier.clearance import Clearance
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy

from . import driver, questions
from .plan import Plan, plan_of
from .switched_off import (
    admit_any_sequence,
    admit_any_writer,
    advance_to_stream,
    believe_any_offset,
    compare_nothing,
    free_at_once,
    peek_many,
    send_again,
    settled_once,
    span_to_the_high_watermark,
    stream_at_once,
    take_and_go_on,
    true,
)
from .world import Verdict, run_plan

MOST_SEEDS = 3_000
Patch = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """`meets`: only such plans can meet the bug; the others are passed over unseen."""

    rule: str
    without: str
    patches: Callable[[], list[Any]]
    change: Callable[[Plan], Plan] = lambda plan: plan
    meets: Callable[[Plan], bool] = lambda _plan: True


@contextmanager
def planted(bug: Planted) -> Iterator[None]:
    patches = bug.patches()
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def find(bug: Planted, most_seeds: int = MOST_SEEDS) -> Verdict | None:
    """The first seed that meets the bug and is judged wrong with it."""
    with planted(bug):
        for seed in range(most_seeds):
            plan = plan_of(seed)
            if bug.meets(plan):
                verdict = run_plan(bug.change(plan))
                if verdict.wrong:
                    return verdict
    return None


# -- plans that meet what is rare


def _is_old(plan: Plan) -> bool:
    return "old" in plan.kind


LONELY = (
    "driver freezes",
    "driver is cut off",
    "driver is busy",
    "driver is killed",
    "lane is cut off",
    "lane is given up",
    "lane freezes",
)


def mixed(plan: Plan, *, drivers: int) -> Plan:
    """Old and fresh records in turn, copiers that nobody can tell anything, and appends that come late."""
    chance = random.Random(plan.seed)
    faults = sorted((chance.randrange(100, 8_000), chance.choice(LONELY)) for _ in range(8))
    return replace(_mixed(plan), drivers=drivers, lanes=min(plan.lanes, 2), faults=tuple(faults))


def mixed_and_given_up(plan: Plan) -> Plan:
    """The same, and a driver that gives lanes up while they copy old records at full speed."""
    chance = random.Random(plan.seed)
    times_ms = (chance.randrange(200, 600), chance.randrange(300, 1_500), chance.randrange(4_500, 6_500))
    faults = sorted((at_ms, "lane is given up") for at_ms in times_ms)
    present = chance.choice((18, 36))
    return replace(
        _mixed(plan), drivers=1, lanes=3, faults=tuple(faults), present_at_start=present, grow_every_ms=20
    )


def _mixed(plan: Plan) -> Plan:
    kind = "old and fresh in turn"
    return replace(plan, kind=kind, loud="", racing=False, late=0.3, expire_every_ms=30)


BUGS = (
    Planted(
        rule="1",
        without="the sequence is read once, not before and after the log's end",
        patches=lambda: [patch.object(resync, "_settled", settled_once)],
        meets=lambda plan: plan.racing,
    ),
    Planted(
        rule="2",
        without="the high watermark is taken for the log's end",
        patches=lambda: [patch.object(questions, "_span", span_to_the_high_watermark)],
        meets=lambda plan: plan.brokers > 1,
    ),
    Planted(
        rule="3",
        without="the target's last batch is not compared with the source's",
        patches=lambda: [
            patch.object(resync, "_compare", compare_nothing),
            patch.object(resync, "admit_partition", admit_any_writer),
        ],
        meets=lambda plan: bool(plan.loud),
    ),
    Planted(
        rule="4",
        without="the first request after a resynchronisation does not go alone",
        patches=lambda: [
            patch.object(PartitionCopy, "synced", stream_at_once),
            patch.object(PartitionCopy, "_doubt_state", lambda *_: None),
        ],
    ),
    Planted(
        rule="4, perishable",
        without="more than one request is in flight behind old records",
        patches=lambda: [
            patch.object(PartitionCopy, "peek", peek_many),
            patch.object(PartitionCopy, "take", take_and_go_on),
            patch.object(PartitionCopy, "_advance", advance_to_stream),
            patch.object(PartitionCopy, "_doubt_state", lambda *_: None),
        ],
        meets=lambda plan: plan.kind == "big and old",
    ),
    Planted(
        rule="5",
        without="the offset of an acknowledgement is not looked at",
        patches=lambda: [patch.object(PartitionCopy, "appended", believe_any_offset)],
        meets=lambda plan: bool(plan.loud),
    ),
    Planted(
        rule="6",
        without="what got no answer is sent again blindly",
        patches=lambda: [patch.object(PartitionCopy, "lost", send_again)],
    ),
    Planted(
        rule="7",
        without="the drift of sequence and log end is not looked at",
        patches=lambda: [patch.object(resync, "admit_partition", admit_any_sequence)],
        meets=lambda plan: plan.kind == "alike",
    ),
    Planted(
        rule="8",
        without="topics go by their names alone",
        patches=list,
        change=lambda plan: replace(plan, planted_names_only=True, produces_by_id=True),
        meets=lambda plan: "recreated" in plan.loud,
    ),
    Planted(
        rule="9",
        without="fetches do not tell which leader's records they go on from",
        patches=list,
        change=lambda plan: replace(plan, planted_no_epochs=True, regrows_at_once=True),
        meets=lambda plan: plan.loud == "source truncated",
    ),
    Planted(
        rule="10",
        without="an idle copier looks neither at the target's end nor at who leads it",
        patches=list,
        change=lambda plan: replace(plan, planted_no_look=True),
    ),
    Planted(
        rule="11, lease",
        without="old records are sent without a look at the lease",
        patches=lambda: [patch.object(Lease, "exclusive", property(true))],
        meets=_is_old,
    ),
    Planted(
        rule="11, taker",
        without="who takes a partition over does not wait for what is on its way",
        patches=lambda: [patch.object(Clearance, "clear", property(true, lambda *_: None), create=True)],
        meets=_is_old,
    ),
    Planted(
        rule="11, given early",
        without="a partition is given on while the lane that is lost may hold an exclusive lease",
        patches=lambda: [patch.object(Placement, "lane_gone", free_at_once)],
        change=mixed_and_given_up,
    ),
    Planted(
        rule="11, hung lane",
        without="who takes over from a lane that may go on does not wait until it cannot",
        patches=lambda: [patch.object(placement, "ALIVE_S", 0.0)],
        change=lambda plan: mixed(plan, drivers=1),
    ),
    Planted(
        rule="11, new driver",
        without="a new driver's lanes do not wait until those of the last one cannot go on",
        patches=lambda: [patch.object(driver, "ALIVE_S", 0.0)],
        change=lambda plan: mixed(plan, drivers=2),
    ),
    Planted(
        rule="11, no right",
        without="lanes go on at the word of a driver that has no right itself",
        patches=list,
        change=lambda plan: replace(mixed(plan, drivers=2), planted_word_without_right=True),
    ),
)


def show_table(say: Callable[[str], None]) -> int:
    missed = 0
    for bug in BUGS:
        verdict = find(bug)
        missed += verdict is None
        found = f"seed {verdict.plan.seed}: {verdict.wrong}" if verdict else f"not in {MOST_SEEDS} seeds"
        say(f"rule {bug.rule:16s} {bug.without}\n{'':22s}{found}")
    return int(bool(missed))
