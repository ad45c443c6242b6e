"""Transactions in the benchmark: what is produced, what is expected of whom, and what counts as a rate."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.contender import CopyJob
from bench.copies import takes_part
from bench.copy_round import rate, target_offsets
from bench.fill_transactions import committed_records, is_aborted, partition_of
from bench.franz_go import FranzGo
from bench.heliograph_run import HeliographRun
from bench.mirror_maker import MirrorMaker, properties
from bench.plain_lane import PlainLane
from bench.recipes import MEMORY, TINY, TRANSACTIONAL

JOB = CopyJob(workload="transactional", label="1", topics=("t",), partitions=4, records=450, offsets=505)


def test_a_tenth_of_the_transactions_is_aborted_in_every_partition_alike() -> None:
    aborted = Counter(partition_of(n, 4) for n in range(4000) if is_aborted(n))
    every = Counter(partition_of(n, 4) for n in range(4000))
    assert set(aborted.values()) == {100}
    assert set(every.values()) == {1000}
    assert committed_records(4000, 100) == 360_000


def test_who_keeps_offsets_is_done_at_the_sources_end_and_others_with_the_last_record() -> None:
    assert target_offsets(HeliographRun(), JOB) == target_offsets(PlainLane(), JOB) == 505
    assert target_offsets(MirrorMaker(), JOB) == 450


def test_a_rate_counts_records_and_not_the_offsets_that_markers_take() -> None:
    assert rate(records=450, offsets=505, first=101, seconds=2) == pytest.approx(450 * 0.8 / 2)
    assert rate(records=450, offsets=450, first=90, seconds=2) == pytest.approx(450 * 0.8 / 2)


def test_only_who_leaves_aborted_records_out_copies_transactions() -> None:
    everybody = (HeliographRun(), MirrorMaker(), FranzGo(), PlainLane())
    assert [each.code for each in everybody if takes_part(each, TRANSACTIONAL)] == [
        "heliograph",
        "mm2",
        "plain",
    ]
    assert [each.code for each in everybody if takes_part(each, MEMORY)] == ["heliograph"]
    assert all(takes_part(each, TINY) for each in everybody)


def test_mirror_maker_reads_what_is_committed() -> None:
    assert properties(JOB, source={}, target={})["1.consumer.isolation.level"] == "read_committed"
