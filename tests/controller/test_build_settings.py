"""How far a compacted topic is that is being built, by its settings alone."""

from __future__ import annotations

import pytest

from heliograph.controller.build_settings import (
    cleaning_changes,
    is_compacted,
    last_changes,
    phase_of,
    with_build,
)
from heliograph.model.states import BuildPhase

FINAL = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "1000",
    "max.message.bytes": "99000000",
    "other": "x",
}


def changed(configs: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    both = {**configs, **changes}
    return {key: value for key, value in both.items() if value is not None}


def test_a_topic_is_filled_then_cleaned_and_has_its_own_settings_in_the_end() -> None:
    filling = with_build(FINAL)
    assert phase_of(filling) is BuildPhase.FILLING
    assert (filling["cleanup.policy"], filling["retention.ms"], filling["other"]) == ("delete", "-1", "x")
    assert int(filling["segment.bytes"]) >= 99_000_000  # else batches of that size are refused
    cleaning = changed(filling, cleaning_changes(FINAL))
    assert phase_of(cleaning) is BuildPhase.CLEANING
    assert cleaning["retention.ms"] == "-1"  # nothing but fillers goes meanwhile
    built = changed(cleaning, last_changes(FINAL))
    assert phase_of(built) is None
    assert built == FINAL


def test_brokers_remove_fillers_also_of_a_topic_that_is_not_compacted_in_the_end() -> None:
    final = {**FINAL, "cleanup.policy": "delete"}  # set by hand
    cleaning = changed(with_build(final), cleaning_changes(final))
    assert phase_of(cleaning) is BuildPhase.CLEANING
    assert changed(cleaning, last_changes(final)) == final


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "delete", "segment.ms": "1048"},
        {"min.cleanable.dirty.ratio": "0", "segment.ms": "1000"},
    ],
)
def test_settings_of_others_are_not_taken_for_a_build(own: dict[str, str]) -> None:
    assert phase_of(own) is None


def test_a_broker_s_way_of_writing_numbers_changes_nothing() -> None:
    assert phase_of({**with_build(FINAL), "min.cleanable.dirty.ratio": "0.0"}) is BuildPhase.FILLING


@pytest.mark.parametrize(
    ("policy", "compacted"),
    [("compact", True), ("delete", False), ("compact,delete", True), ("delete,compact", True), (None, False)],
)
def test_what_counts_as_compacted(policy: str | None, compacted: bool) -> None:
    assert is_compacted({} if policy is None else {"cleanup.policy": policy}) is compacted
