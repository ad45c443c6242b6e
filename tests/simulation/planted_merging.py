"""Planted bugs, third part: batches are merged wrongly, or what must follow from merging does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from heliograph.copier import anchor, merging, merging_rule
from heliograph.copier.merging import Merging
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.wire import merge

from .conditions import Bounds, Conditions
from .merged_wrongly import (
    differs_at_once,
    goes_on_without,
    hold_nothing,
    join_as_they_are,
    join_from_another_time,
    merge_without_limit,
    stop_at_merged,
)
from .merging_plan import LARGE, SMALL
from .merging_plan import Merging as PlannedMerging
from .plan import Plan
from .planted_bug import Planted
from .rare_plans import BURSTS, of_kinds, quiet, with_faults
from .raw_batch import Sizes
from .source_content import PLAIN


def _merging(plan: Plan, *kinds: str, sizes: Sizes = LARGE, codecs: str = PLAIN) -> Plan:
    """All lanes merge, and much comes at once."""
    plan = quiet(of_kinds(replace(plan, racing=False), *(kinds or ("fresh",)), rhythm=BURSTS))
    topics = tuple(tuple(replace(content, codecs=codecs) for content in topic) for topic in plan.topics)
    return replace(plan, topics=topics, merging=PlannedMerging(kernels_s=(0.0,), sizes=(sizes, sizes)))


def _takes_less(plan: Plan) -> Plan:
    return with_faults(_merging(plan), "target takes less", count=4, until_s=14.0)


def _crammed(plan: Plan) -> Plan:
    """Much to copy to a broker that hangs, by a lane with little memory."""
    plan = with_faults(_merging(plan), "broker freezes", count=8)
    conditions = Conditions(lane_memory_bytes=1 << 12, frozen_s=(8.0, 12.0))
    return replace(plan, drivers=1, lanes=1, brokers=1, min_insync=1, conditions=conditions)


def _together_without(*checks: str) -> list[Any]:
    goes_on = goes_on_without(*checks)
    return [patch.object(merge, "goes_on", goes_on), patch.object(merging_rule, "goes_on", goes_on)]


MERGING = (
    Planted(
        rule="merge, offsets",
        without="the records of a merged batch are not numbered anew",
        patches=lambda: [patch.object(merge, "join_plain", join_as_they_are)],
        change=_merging,
    ),
    Planted(
        rule="merge, times",
        without="the timestamps of a merged batch count from another time than its header says",
        patches=lambda: [patch.object(merge, "join_plain", join_from_another_time)],
        change=_merging,
    ),
    Planted(
        rule="merge, codecs",
        without="batches of several codecs become one",
        patches=lambda: _together_without("attributes"),
        change=lambda plan: _merging(plan, codecs="gzip in between"),
    ),
    Planted(
        rule="merge, hole",
        without="batches before and behind a hole become one",
        patches=lambda: _together_without("base_offset"),
        change=lambda plan: _merging(plan, "hole"),
    ),
    Planted(
        rule="merge, size",
        without="merged batches are larger than the topic takes",
        patches=lambda: [patch.object(Merging, "take", merge_without_limit)],
        change=lambda plan: _merging(plan, sizes=SMALL[plan.seed % len(SMALL)]),
    ),
    Planted(
        rule="merge, refused",
        without="what was refused as one batch is merged again, as large as it was, whatever the configs say",
        patches=lambda: [
            patch.object(Merging, "refused", lambda *_, **__: None),
            patch.object(Merging, "limit", lambda *_: None),
        ],
        change=lambda plan: replace(_takes_less(plan), bounds=Bounds(interruptions=16)),
    ),
    Planted(
        rule="merge, stopped",
        without="a merged batch that is refused stops its partition",
        patches=lambda: [patch.object(PartitionCopy, "refused", stop_at_merged)],
        change=_takes_less,
    ),
    Planted(
        rule="merge, anchor",
        without="the target's last batch must be one of the source's",
        patches=lambda: [patch.object(anchor, "_first_difference", differs_at_once)],
        change=_merging,
    ),
    Planted(
        rule="merge, memory",
        without="the memory of merged batches is not counted",
        patches=lambda: [patch.object(merging, "hold_merged", hold_nothing)],
        change=_crammed,
    ),
)
