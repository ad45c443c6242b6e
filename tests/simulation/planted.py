"""Planted bugs: each rule of compare-and-append switched off in turn, by a small patch of the production code.

A simulation that finds none of them proves nothing. The table says which seed finds which, and what the judge said.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from heliograph.controller import mirror, placement, verdict
from heliograph.controller.link_roles import LinkRoles
from heliograph.controller.placement import Placement
from heliograph.copier import fetcher, resync
from heliograph.copier import lane as lane_module
from heliograph.copier.clearance import Clearance
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.sender import Sender
from heliograph.copier.topic_ids import TopicIds
from heliograph.copier.vigil import Vigil

from .gap_plan import IN_RANDOM_PLANS
from .mended import MENDED
from .plan import LOUD, plan_of
from .planted_bug import Planted, planted
from .planted_builds import BUILDS
from .planted_gaps import GAPS
from .planted_ledger import LEDGER
from .planted_merging import MERGING
from .rare_plans import (
    QUICK,
    STEADY,
    THEN_OLDER,
    broken_in_bursts,
    loud,
    mixed,
    of_kinds,
    quiet,
    racing,
    with_faults,
)
from .switched_off import (
    admit_any_sequence,
    admit_any_writer,
    advance_to_stream,
    believe_any_offset,
    compare_nothing,
    free_at_once,
    grants_without_right,
    peek_many,
    send_again,
    sender_without_permit,
    settled_once,
    settled_to_the_high_watermark,
    stream_at_once,
    take_and_go_on,
    true,
    want_without_epochs,
)
from .world import Verdict, run_plan

MOST_SEEDS = 300


# Where each bug was found the last time (`--planted --note`), so that CI need not search. A change of the code may
# move it: then all seeds are gone through as ever.
FOUND_AT = Path(__file__).with_name("found_at.json")


def _known(bug: Planted) -> list[int]:
    found = json.loads(FOUND_AT.read_text()).get(bug.name) if FOUND_AT.exists() else None
    return [found] if found is not None else []


def find(bug: Planted, most_seeds: int = MOST_SEEDS) -> Verdict | None:
    """A seed that meets the bug and is judged wrong with it: the one that is known, or the first."""
    with planted(bug):
        for seed in (*_known(bug), *range(most_seeds)):
            plan = plan_of(seed)
            if bug.meets(plan):
                verdict = run_plan(bug.change(plan))
                if verdict.wrong:
                    return verdict
    return None


BUGS = (
    Planted(
        rule="1",
        without="the sequence is read once, not before and after the log's end",
        patches=lambda: [patch.object(resync, "_settled", settled_once)],
        change=broken_in_bursts,
    ),
    Planted(
        rule="2",
        without="the high watermark is taken for the log's end",
        patches=lambda: [patch.object(resync, "_settled", settled_to_the_high_watermark)],
        meets=lambda plan: plan.brokers > 1,
    ),
    Planted(
        rule="3",
        without="the target's last batch is not compared with the source's",
        patches=lambda: [
            patch.object(resync, "compare_anchor", compare_nothing),
            patch.object(resync, "admit_partition", admit_any_writer),
            patch.object(verdict, "admit_partition", admit_any_writer),
        ],
        change=lambda plan: loud(plan, *LOUD),
    ),
    Planted(
        rule="4",
        without="the first request after a resynchronisation does not go alone",
        patches=lambda: [
            patch.object(PartitionCopy, "synced", stream_at_once),
            patch.object(PartitionCopy, "_doubt_state", lambda *_: None),
        ],
        change=lambda plan: of_kinds(plan, "big"),
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
        change=lambda plan: replace(quiet(of_kinds(plan, "big and old")), expire_every_s=0.3),
    ),
    Planted(
        rule="5",
        without="the offset of an acknowledgement is not looked at",
        patches=lambda: [patch.object(PartitionCopy, "appended", believe_any_offset)],
        change=lambda plan: loud(plan, "foreign writer"),
    ),
    Planted(
        rule="6",
        without="what got no answer is sent again blindly",
        patches=lambda: [patch.object(PartitionCopy, "lost", send_again)],
        change=lambda plan: with_faults(of_kinds(plan, "old"), "lines break", "messages are lost"),
    ),
    Planted(
        rule="7",
        without="the drift of sequence and log end is not looked at",
        patches=lambda: [
            patch.object(resync, "admit_partition", admit_any_sequence),
            patch.object(verdict, "admit_partition", admit_any_sequence),
        ],
        change=lambda plan: of_kinds(loud(plan, "foreign writer"), "alike"),
    ),
    Planted(
        rule="8",
        without="topics go by their names alone",
        patches=lambda: [
            patch.object(TopicIds, "seen", lambda *_: None),
            patch.object(TopicIds, "target", property(lambda _: b"")),
        ],
        change=lambda plan: replace(loud(plan, "target recreated"), produces_by_id=True),
    ),
    Planted(
        rule="9",
        without="fetches do not tell which leader's records they go on from",
        patches=lambda: [patch.object(fetcher, "FetchWant", want_without_epochs)],
        change=lambda plan: replace(
            loud(replace(plan, faults=()), "source truncated"), regrows_at_once=True, racing=False, late=0.0
        ),
    ),
    Planted(
        rule="10",
        without="an idle copier looks neither at the target's end nor at who leads it",
        patches=lambda: [
            patch.object(Vigil, "_idle", lambda _: {}),
            patch.object(lane_module, "LOOK_INTERVAL_S", float("inf")),
        ],
        change=lambda plan: with_faults(plan, "unclean election", "leader moves", count=16),
        meets=lambda plan: plan.brokers > 1,
    ),
    Planted(
        rule="11, lease",
        without="old records are sent without a look at the lease",
        patches=lambda: [patch.object(Lease, "exclusive", property(true))],
        change=lambda plan: mixed(plan, drivers=2),
    ),
    Planted(
        rule="11, every line",
        without="what waits in a buffer leaves after the lease's end, on lines of fresh records",
        patches=lambda: [patch.object(Sender, "__init__", sender_without_permit)],
        change=lambda plan: replace(
            mixed(
                plan,
                drivers=1,
                faults=("lane's machine sleeps",),
                count=1,
                until_s=12.0,
                absences_s=((66.0, 80.0),),
            ),
            clogs=0.6,
            late=0.0,
        ),
        meets=lambda plan: plan.brokers > 1,
    ),
    Planted(
        rule="11, taker",
        without="who takes a partition over does not wait for what is on its way",
        patches=lambda: [patch.object(Clearance, "clear", property(true, lambda *_: None), create=True)],
        change=lambda plan: mixed(plan, drivers=1),
    ),
    Planted(
        rule="11, given early",
        without="a partition is given on while the lane that is lost may hold an exclusive lease",
        patches=lambda: [patch.object(Placement, "lane_gone", free_at_once)],
        change=lambda plan: mixed(
            plan, drivers=1, lanes=3, faults=("lane is given up",), until_s=16.0, rhythm=QUICK, late=0.25
        ),
    ),
    Planted(
        rule="11, hung lane",
        without="who takes over from a lane that may go on does not wait until it cannot",
        patches=lambda: [patch.object(placement, "ALIVE_S", 0.0)],
        change=lambda plan: mixed(
            plan,
            drivers=1,
            faults=("lane is given up",),
            count=1,
            until_s=10.0,
            kind=THEN_OLDER,
            late=0.12,
            absences_s=((40.0, 80.0),),
        ),
        meets=lambda plan: plan.brokers > 1,
    ),
    Planted(
        rule="11, new driver",
        without="a new driver's lanes do not wait until those of the last one cannot go on",
        patches=lambda: [patch.object(mirror, "ALIVE_S", 0.0)],
        change=lambda plan: mixed(
            plan,
            drivers=2,
            faults=("driver freezes", "driver is cut off"),
            count=1,
            until_s=12.0,
            kind=THEN_OLDER,
            late=0.12,
            absences_s=((40.0, 80.0),),
        ),
        meets=lambda plan: plan.brokers > 1,
    ),
    Planted(
        rule="11, no right",
        without="lanes go on at the word of a driver that has no right itself",
        patches=lambda: [patch.object(LinkRoles, "grants", grants_without_right)],
        change=lambda plan: mixed(
            plan,
            drivers=2,
            faults=("driver is cut off", "driver freezes"),
            count=1,
            until_s=20.0,
            late=0.2,
            absences_s=((75.0, 90.0),),
        ),
    ),
    Planted(
        rule="11, election",
        without="two drivers copy old records at once, each elected by a group of its own",
        patches=list,
        change=lambda plan: racing(mixed(plan, drivers=2), "old", rhythm=STEADY),
    ),
    *MENDED,
    *MERGING,
    *((*GAPS, *LEDGER) if IN_RANDOM_PLANS else ()),
    *BUILDS,
)


def show_table(say: Callable[[str], None], *, note: bool = False) -> int:
    """`note`: write down which seed finds which bug."""
    missed, seeds = 0, {}
    for bug in BUGS:
        verdict = find(bug)
        missed += verdict is None
        found = f"seed {verdict.plan.seed}: {verdict.wrong}" if verdict else f"not in {MOST_SEEDS} seeds"
        say(f"rule {bug.rule:16s} {bug.without}\n{'':22s}{found}")
        if verdict is not None:
            seeds[bug.name] = verdict.plan.seed
    if note:
        FOUND_AT.write_text(json.dumps(seeds, indent=2) + "\n")
    return int(bool(missed))
