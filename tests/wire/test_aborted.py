"""Aborted transactions: which batches a read_committed consumer passes over."""

from __future__ import annotations

import random

import pytest

from heliograph.model.errors import CorruptBatch
from heliograph.wire.aborted import AbortedFilter
from heliograph.wire.batch import read_header

from .batches import ABORT, COMMIT, CONTROL, TRANSACTIONAL, make_batch, make_control_batch

RECORD = (b"k", b"v", ())


def data(offset: int, producer: int, *, records: int = 1, attributes: int = TRANSACTIONAL) -> bytearray:
    return make_batch([RECORD] * records, base_offset=offset, producer_id=producer, attributes=attributes)


def marker(offset: int, producer: int, kind: int) -> bytearray:
    return make_control_batch(kind, base_offset=offset, producer_id=producer)


def aborted_in(log: list[bytearray], aborted: list[tuple[int, int]]) -> list[int]:
    """The base offsets of the batches that are aborted."""
    it = AbortedFilter(aborted)
    headers = [read_header(memoryview(batch)) for batch in log]
    return [
        header.base_offset
        for header, batch in zip(headers, log, strict=True)
        if it.is_aborted(header, memoryview(batch))
    ]


def test_without_aborted_transactions_nothing_is_looked_at() -> None:
    broken = make_batch([(b"", b"", ())], producer_id=7, attributes=CONTROL | TRANSACTIONAL)
    assert aborted_in([data(0, 7), broken], []) == []


def test_a_transaction_is_aborted_from_its_first_offset_to_its_marker() -> None:
    log = [data(0, 7), marker(1, 7, COMMIT), data(2, 7), data(3, 7), marker(4, 7, ABORT), data(5, 7)]
    assert aborted_in(log, [(7, 2)]) == [2, 3]


def test_a_batch_that_holds_the_first_offset_is_aborted_wherever_it_begins() -> None:
    """The answer's first batch may begin before what was asked for."""
    log = [data(0, 7, records=5), marker(5, 7, ABORT)]
    assert aborted_in(log, [(7, 3)]) == [0]


def test_a_transaction_that_began_before_the_answer_is_aborted_from_its_start() -> None:
    assert aborted_in([data(100, 7), marker(101, 7, ABORT), data(102, 7)], [(7, 20)]) == [100]


def test_batches_of_other_producers_between_are_not_aborted() -> None:
    log = [
        data(0, 7),
        data(1, 8),
        data(2, 9),
        data(3, -1, attributes=0),
        data(4, 7),
        marker(5, 8, COMMIT),
        marker(6, 7, ABORT),
        data(7, 9),
        marker(8, 9, ABORT),
    ]
    assert aborted_in(log, [(9, 2), (7, 0)]) == [0, 2, 4, 7]


def test_a_producer_may_abort_more_than_once_in_an_answer() -> None:
    log = [
        data(0, 7),
        marker(1, 7, ABORT),
        data(2, 7),
        marker(3, 7, COMMIT),
        data(4, 7),
        data(5, 7),
        marker(6, 7, ABORT),
        data(7, 7),
    ]
    assert aborted_in(log, [(7, 0), (7, 4)]) == [0, 4, 5]


def test_what_a_producer_writes_outside_of_transactions_is_not_aborted() -> None:
    assert aborted_in([data(0, 7, attributes=0), data(1, 7)], [(7, 0)]) == [1]


def test_a_control_batch_that_cannot_be_read_is_corrupt() -> None:
    broken = make_batch([(b"", b"", ())], base_offset=1, producer_id=7, attributes=CONTROL | TRANSACTIONAL)
    with pytest.raises(CorruptBatch):
        aborted_in([data(0, 7), broken], [(7, 0)])


@pytest.mark.parametrize("seed", range(20))
def test_any_log_is_filtered_as_its_transactions_ended(seed: int) -> None:
    """Interleaved transactions of several producers, cut anywhere; each answer's list is what a broker would say."""
    chance = random.Random(seed)
    log: list[bytearray] = []
    began: dict[int, int] = {}
    held: dict[int, list[int]] = {}
    ended: list[tuple[int, int, int]] = []  # producer, first offset, the marker's
    wanted: list[int] = []
    for offset in range(300):
        producer = chance.randrange(4)
        if producer in began and chance.random() < 0.2:
            kind = chance.choice([ABORT, COMMIT])
            log.append(marker(offset, producer, kind))
            first, held_offsets = began.pop(producer), held.pop(producer)
            if kind == ABORT:
                ended.append((producer, first, offset))
                wanted += held_offsets
        else:
            log.append(data(offset, producer))
            began.setdefault(producer, offset)
            held.setdefault(producer, []).append(offset)
    stable_end = min(began.values(), default=len(log))
    at = 0
    found: list[int] = []
    while at < stable_end:
        upto = min(at + chance.randrange(1, 40), stable_end)
        listed = [(producer, first) for producer, first, last in ended if first < upto and last >= at]
        chance.shuffle(listed)
        found += aborted_in(log[at:upto], listed)
        at = upto
    assert found == sorted(each for each in wanted if each < stable_end)
