"""How a compacted topic is built on the target, as its settings show. Pure.

A compacted source has holes, which fillers take on the target (copier/building.py) until its own brokers remove them:

    filling    cleanup.policy=delete    records and fillers are appended; nothing is removed
    cleaning   the source's policy      brokers remove the fillers: records without a key
    (built)    the source's settings    a topic like any other

Which of them it is can be read off the topic itself, so that any successor goes on, with a ledger or without.
"""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.copier.sealing import SEGMENT_MS
from heliograph.model.states import BuildPhase

KEEP_OFF = "keep consumers off until topic_built"  # they would read fillers, and look-ups by time are wrong
POLICY = "cleanup.policy"
COMPACT = "compact"
# A number that nobody sets by hand: it shows that the topic is being built. It must be above 0, and far below the ten
# minutes by which fillers are dated back (copier/building.py): then the marker behind the last of them begins a new
# segment, and all fillers are in segments that brokers clean (copier/sealing.py).
_SIGN = ("segment.ms", str(SEGMENT_MS))
_DIRTY_RATIO = "min.cleanable.dirty.ratio"
_SEGMENT_BYTES = 64 << 20  # few files, and small parts to clean
_SETTINGS: Mapping[str, str] = {
    POLICY: "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "min.compaction.lag.ms": "0",
    _DIRTY_RATIO: "0",
    _SIGN[0]: _SIGN[1],
}


def is_compacted(configs: Mapping[str, str]) -> bool:
    return COMPACT in configs.get(POLICY, "delete").split(",")


def with_build(configs: Mapping[str, str]) -> dict[str, str]:
    """What a topic is created with that is to have these configs in the end."""
    largest = max(int(configs.get("max.message.bytes", 0)), _SEGMENT_BYTES)
    return {**configs, **_SETTINGS, "segment.bytes": str(largest)}


def is_build_setting(name: str) -> bool:
    """Without it a topic cannot be built, or would not be known for one that is."""
    return name in _SETTINGS or name == "segment.bytes"


def phase_of(own: Mapping[str, str]) -> BuildPhase | None:
    """Whether a target topic is filled or cleaned, by what is set on it; None: it is not being built."""
    if own.get(_SIGN[0]) != _SIGN[1] or float(own.get(_DIRTY_RATIO, "1")) != 0:
        return None
    return BuildPhase.CLEANING if is_compacted(own) else BuildPhase.FILLING


def cleaning_changes(configs: Mapping[str, str]) -> dict[str, str | None]:
    """What makes brokers remove fillers; `configs`: those that the topic is to have in the end."""
    return {POLICY: configs.get(POLICY, COMPACT) if is_compacted(configs) else COMPACT}


def last_changes(configs: Mapping[str, str]) -> dict[str, str | None]:
    """What gives the topic the configs that it is to have in the end; None: the broker's own."""
    return {key: configs.get(key) for key in (*_SETTINGS, "segment.bytes")}
