"""Planted bugs, last part: compacted topics are built wrongly. What is patched is looked up when a bug is planted."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from unittest.mock import patch

from .build_plans import built, built_late, built_while_it_grows
from .planted_bug import Planted


def _part(name: str) -> Any:
    return import_module(f"heliograph.{name}")


def _old_is_taken_for_fresh() -> list[Any]:
    """Behind a stretch of old records the broker may have forgotten us, and nothing compares a second copy of it."""
    building, append = _part("copier.building").Building, _part("copier.batches").Append
    make = building._make

    def made(self: Any, *what: Any) -> Any:
        found = make(self, *what)
        return found._replace(perishable=False) if isinstance(found, append) else found

    return [patch.object(building, "_make", made)]


def _nobody_waits_to_be_clear() -> list[Any]:
    """What is made of old records is not looked at, only what was left of them at the source."""

    def old_is_next(copy: Any) -> bool:
        return copy._waiting.left_old and not copy._waiting

    return [patch.object(_part("copier.partition_copy").PartitionCopy, "_old_is_next", property(old_is_next))]


def _the_marker_follows_at_once() -> list[Any]:
    """Nor is it asked whether it has begun a segment."""
    resync = _part("copier.resync")

    def nothing_to_ask(*_what: Any) -> Any:
        yield from ()

    return [patch.object(resync, name, nothing_to_ask) for name in ("until_old_enough", "check_sealed")]


def _one_is_enough() -> list[Any]:
    """Brokers are told to clean when one partition of the topic is filled."""
    return [patch.object(_part("controller.builds"), "all", any, create=True)]


def _fillers_are_records() -> list[Any]:
    """What brokers have not removed is left there."""
    from . import build_side

    return [patch.object(build_side, "holds_filler", lambda _stored: False)]


def _markers_are_not_awaited() -> list[Any]:
    """Those of the last holder, at offsets that get a filler by now."""
    copier = _part("copier.partition_copy").PartitionCopy
    return [patch.object(copier, "_marker_may_come", property(lambda _copy: False))]


BUILDS = (
    Planted(
        rule="build, marker",
        without="fillers go where a marker of the last holder may still come",
        patches=_markers_are_not_awaited,
        change=built_while_it_grows,
    ),
    Planted(
        rule="build, old",
        without="a stretch of old records in a build goes as fresh ones do",
        patches=_old_is_taken_for_fresh,
        change=built_late,
    ),
    Planted(
        rule="build, clear",
        without="nobody waits for older appends before a stretch of old records in a build",
        patches=_nobody_waits_to_be_clear,
        change=lambda plan: built(plan, "built, old"),
    ),
    Planted(
        rule="build, sealed",
        without="the marker behind the last filler begins no segment",
        patches=_the_marker_follows_at_once,
        change=lambda plan: built(plan, "built", count=0),
    ),
    Planted(
        rule="build, filled",
        without="brokers compact a topic of which a partition is still filled",
        patches=_one_is_enough,
        change=built,
    ),
    Planted(
        rule="build, clean",
        without="a topic counts as built while brokers hold fillers",
        patches=_fillers_are_records,
        change=built,
    ),
)
