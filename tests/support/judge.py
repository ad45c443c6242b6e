"""The judge of a mirror: reads both clusters to the end and says whether a consumer could tell them apart.

Owns the comparison. Must not know any code of the mirror. It compares, per partition, what P1, P2, P4 and
P5 promise: log start and end, the set of offsets, timestamp and its type, key, value and headers in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .log_reader import Deadline, LogReader, SeenRecord

MOST_DIFFERENCES = 20
MOST_CHARACTERS = 48
BOTH_COMMITTED = ("read_committed", "read_committed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`records` counts the source's; `differences` names the first ones, `different` counts all."""

    identical: bool
    records: int
    different: int
    differences: tuple[str, ...]


class Findings:
    """What has been seen so far; only the first differences are put into words."""

    def __init__(self) -> None:
        self.records = 0
        self.different = 0
        self.differences: list[str] = []

    def note(self, where: str, what: str, source: object, target: object) -> None:
        self.different += 1
        if len(self.differences) < MOST_DIFFERENCES:
            sides = f"source {shortened(source)}, target {shortened(target)}"
            self.differences.append(f"{where} {what}: {sides}")

    def verdict(self) -> Verdict:
        return Verdict(
            identical=self.different == 0,
            records=self.records,
            different=self.different,
            differences=tuple(self.differences),
        )


def compare(
    source_bootstrap: str,
    target_bootstrap: str,
    topics: Mapping[str, str] | Iterable[str],
    *,
    timeout_s: float = 120.0,
    isolations: tuple[str, str] = BOTH_COMMITTED,
    source_settings: Mapping[str, Any] | None = None,
    target_settings: Mapping[str, Any] | None = None,
) -> Verdict:
    """Compares topics of one name, or a mapping of source to target names. Raises `Undecided` in time.
    `isolations`: of the consumers of source and target. `source_settings`, `target_settings`: librdkafka's, of each
    (old_kafka.py, client_access.py)."""
    pairs = topic_pairs(topics)
    deadline = Deadline.after(timeout_s)
    findings = Findings()
    with (
        LogReader(source_bootstrap, deadline, isolations[0], source_settings) as source,
        LogReader(target_bootstrap, deadline, isolations[1], target_settings) as target,
    ):
        for source_topic, target_topic in pairs.items():
            _compare_topic(findings, source, target, source_topic, target_topic)
    return findings.verdict()


def assert_identical(
    source_bootstrap: str,
    target_bootstrap: str,
    topics: Mapping[str, str] | Iterable[str],
    *,
    records: int | None = None,
    timeout_s: float = 120.0,
    isolations: tuple[str, str] = BOTH_COMMITTED,
    source_settings: Mapping[str, Any] | None = None,
    target_settings: Mapping[str, Any] | None = None,
) -> Verdict:
    """Fails with the first differences; also if the source holds another number of records than expected."""
    verdict = compare(
        source_bootstrap,
        target_bootstrap,
        topics,
        timeout_s=timeout_s,
        isolations=isolations,
        source_settings=source_settings,
        target_settings=target_settings,
    )
    listed = "\n  ".join(verdict.differences)
    assert verdict.identical, (
        f"{verdict.different} differences in {verdict.records} records, first:\n  {listed}"
    )
    if records is not None:
        assert verdict.records == records, f"the source holds {verdict.records} records, not {records}"
    return verdict


def topic_pairs(topics: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    if isinstance(topics, Mapping):
        pairs = dict(topics)
    else:
        pairs = {name: name for name in ([topics] if isinstance(topics, str) else topics)}
    if not pairs:
        raise ValueError("no topic to compare: every mirror would pass")
    return pairs


def _compare_topic(
    findings: Findings, source: LogReader, target: LogReader, source_topic: str, target_topic: str
) -> None:
    name = source_topic if source_topic == target_topic else f"{source_topic} -> {target_topic}"
    source_count = source.partition_count(source_topic)
    target_count = target.partition_count(target_topic)
    if source_count is None or source_count != target_count:
        findings.note(name, "number of partitions", source_count, target_count)
    for partition in range(min(source_count or 0, target_count or 0)):
        where = f"{name}[{partition}]"
        source_bounds = source.bounds(source_topic, partition)
        target_bounds = target.bounds(target_topic, partition)
        _compare_bounds(findings, where, source_bounds, target_bounds)
        _compare_records(
            findings,
            where,
            source.records(source_topic, partition, source_bounds),
            target.records(target_topic, partition, target_bounds),
        )


def _compare_bounds(findings: Findings, where: str, source: range, target: range) -> None:
    if source.start != target.start:
        findings.note(where, "log start", source.start, target.start)
    if source.stop != target.stop:
        findings.note(where, "log end", source.stop, target.stop)


def _compare_records(
    findings: Findings, where: str, source: Iterable[SeenRecord], target: Iterable[SeenRecord]
) -> None:
    """Walks both logs in step, by offset: each side holds no more than a chunk."""
    sources, targets = iter(source), iter(target)
    ours, theirs = next(sources, None), next(targets, None)
    while ours is not None or theirs is not None:
        if theirs is None or (ours is not None and ours.offset < theirs.offset):
            assert ours is not None
            findings.records += 1
            findings.note(f"{where}@{ours.offset}", "record", ours.value, MISSING)
            ours = next(sources, None)
        elif ours is None or theirs.offset < ours.offset:
            findings.note(f"{where}@{theirs.offset}", "record", MISSING, theirs.value)
            theirs = next(targets, None)
        else:
            findings.records += 1
            if ours != theirs:
                _name_differences(findings, f"{where}@{ours.offset}", ours, theirs)
            ours, theirs = next(sources, None), next(targets, None)


def _name_differences(findings: Findings, where: str, source: SeenRecord, target: SeenRecord) -> None:
    for field, ours, theirs in zip(SeenRecord._fields, source, target, strict=True):
        if ours != theirs:
            findings.note(where, field, ours, theirs)


class _Missing:
    def __repr__(self) -> str:
        return "has none"


MISSING = _Missing()


def shortened(value: object) -> str:
    """A value's beginning, and the size of what was left out."""
    if isinstance(value, bytes) and len(value) > MOST_CHARACTERS:
        return f"{value[:MOST_CHARACTERS]!r}... ({len(value)} bytes)"
    text = repr(value)
    return text if len(text) <= 4 * MOST_CHARACTERS else f"{text[: 4 * MOST_CHARACTERS]}..."
