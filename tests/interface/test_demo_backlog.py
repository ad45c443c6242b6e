from __future__ import annotations

import json
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatch

from heliograph.interface.demo.backlog import BATCH_RECORDS, Template, shares
from heliograph.interface.demo.workload import PARTITIONS

MAX_MESSAGE_BYTES = 1_048_588  # a broker's default


def records_of(batch: memoryview) -> list[Any]:
    read = DefaultRecordBatch(bytes(batch))
    assert read.validate_crc()
    return list(read)


def test_an_independent_reader_finds_numbered_records_with_times_up_to_now() -> None:
    template = Template(40)
    records = [record for first in (0, 987_654_320) for record in records_of(template.batch(first, 5_000))]
    numbers = [*range(40), *range(987_654_320, 987_654_360)]
    assert [int(record.key) for record in records] == numbers
    assert [int(json.loads(record.value)["id"]) for record in records] == numbers
    assert [record.timestamp for record in records[:40]] == list(range(4_961, 5_001))
    assert [len(record.headers) for record in records[:40]] == [1, *[0] * 9] * 4


def test_a_full_batch_is_one_that_brokers_take_and_half_a_kilobyte_a_record() -> None:
    batch = Template(BATCH_RECORDS).batch(0, 5_000)
    assert batch.nbytes < MAX_MESSAGE_BYTES
    assert batch.nbytes / BATCH_RECORDS == pytest.approx(500, abs=5)


@pytest.mark.parametrize("records", [1, 1000, 12_000, 12_001, 1_000_000])
def test_every_number_is_written_once_and_a_request_has_one_batch_for_a_partition(records: int) -> None:
    next_number = 0
    for request in shares(records):
        assert len({share[:2] for share in request}) == len(request) <= len(PARTITIONS)
        for _, _, first, count in request:
            assert (first, 0 < count <= BATCH_RECORDS) == (next_number, True)
            next_number += count
    assert next_number == records


def test_a_small_backlog_reaches_all_partitions() -> None:
    assert {share[:2] for share in next(shares(1000))} == set(PARTITIONS)
