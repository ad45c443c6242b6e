"""Planted bugs, fifth part: what one run leaves for the next, in cells and rows, is kept or taken wrongly."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from heliograph.controller.cells import Begun, Cells
from heliograph.controller.lane_keeper import LaneKeeper
from heliograph.controller.recorded import Recorded
from heliograph.controller.restart import Restart
from heliograph.model.ledger import LedgerState, Row

from .gap_plan import OVERTAKEN
from .gap_plans import in_transactions
from .merging_plan import NO_MERGING
from .operator_plan import ACCEPT, PAUSE, PAUSE_LONG, WAVER
from .plan import Plan
from .planted_bug import Planted
from .rare_plans import STEADY, mixed, with_faults
from .switched_off import true


async def _begin_with_marks(cells: Cells, wheres: Any, **how: Any) -> Begun:
    begun = await _begin(cells, wheres, **how)
    async with cells._lock:
        cells._texts |= {
            where: cells._text_of(where)._replace(mark=mark) for where, mark in begun.marks.items()
        }
        await cells._put({where: cells._cell(where) for where in begun.marks}, how["member"])
    return begun


def _put_newest(state: LedgerState, row: Row) -> None:
    """Whatever the terms of the others are."""
    if row.fields is not None:
        state._rows[row.name] = {row.term: row.fields}
    else:
        state._rows.get(row.name, {}).pop(row.term, None)


async def _put_nothing_aside(*_: object) -> None:
    return


_begin = Cells.begin


def _old(plan: Plan, *kinds: str) -> Plan:
    """Old records, which brokers do not compare, of runs that end one after the other, and appends that come late."""
    plan = mixed(plan, drivers=1, faults=kinds, kind="old", rhythm=STEADY, late=0.3)
    chance = random.Random(plan.seed)
    faults = [
        (12.0 + 13.0 * n + chance.uniform(0.0, 4.0), kinds[n % len(kinds)]) for n in range(6)
    ]  # the next begins some 10 s after one that is killed
    return replace(plan, faults=tuple(faults), clogs=0.0, merging=NO_MERGING)


def _frozen_and_overtaken(plan: Plan) -> Plan:
    """A driver that is frozen hears late of a stop that the next one has heard of, and that is resolved by then. What
    it writes of it is read when the partition is resumed, which was paused meanwhile: else whoever writes it would hear
    that it is resolved, too, and take it back."""
    plan = replace(in_transactions(plan), drivers=2, late=0.3, merging=NO_MERGING, loud_at=plan.seed % 5)
    chance = random.Random(plan.seed)
    faults = [(10.0, "driver freezes"), (10.1, OVERTAKEN)]
    faults += [(chance.uniform(10.0, 20.0), "lines break") for _ in range(8)]
    accepts = ((20.0 + 2.0 * n, ACCEPT) for n in range(6))
    acts = (*accepts, (33.0, PAUSE_LONG))
    plan = replace(plan, faults=tuple(sorted(faults)), loud=OVERTAKEN, acts=acts)
    return replace(plan, absences_s=((28.0, 40.0),))


def _paused_often(plan: Plan, how: str = PAUSE) -> Plan:
    plan = with_faults(in_transactions(plan), "lane is killed", "driver is killed", count=6)
    return replace(plan, acts=tuple((6.0 * n, how) for n in range(1, 14)))


LEDGER = (
    Planted(
        rule="mark, erased",
        without="who takes over leaves the mark of the last clean stop where it is",
        patches=lambda: [patch.object(Cells, "begin", _begin_with_marks)],
        change=lambda plan: _old(plan, "driver is stopped", "driver is killed"),
    ),
    Planted(
        rule="mark, drained",
        without="a mark is left though lanes have not drained",
        patches=lambda: [
            patch.object(LaneKeeper, "is_free", true),
            patch.object(LaneKeeper, "clear_in_s", lambda *_: 0.0),
        ],
        change=lambda plan: _old(plan, "driver is stopped"),
    ),
    Planted(
        rule="ledger, stale",
        without="the newest row is taken, and not that of the highest term",
        patches=lambda: [
            patch.object(LedgerState, "put", _put_newest),
            patch.object(LedgerState, "_counting", lambda state, name: state._rows.get(name, {})),
        ],
        change=_frozen_and_overtaken,
    ),
    Planted(
        rule="pause",
        without="a partition is said to be paused that lanes go on with",
        patches=lambda: [patch.object(Restart, "put_aside", _put_nothing_aside)],
        change=_paused_often,
    ),
    Planted(
        rule="pause, last",
        without="of commands that come together each is carried out, pauses first",
        patches=lambda: [patch.object(Recorded, "counts", true)],
        change=lambda plan: _paused_often(plan, WAVER),
    ),
    Planted(
        rule="pause, kept",
        without="a pause is forgotten when the run ends",
        patches=lambda: [patch("heliograph.controller.plan.paused_by", lambda *_: None)],
        change=_paused_often,
    ),
)
