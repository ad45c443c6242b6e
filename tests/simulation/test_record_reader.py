"""The judge's reader reads what the independent builder wrote, and notices what is no record."""

from __future__ import annotations

import pytest

from tests.wire.batches import make_batch

from .record_reader import SeenRecord, Unreadable, records_of
from .source_content import BIG_AT, CODECS, KINDS, MOST_BYTES, hole_before, made

LONGEST = 1_200


def test_it_reads_keys_values_headers_and_times() -> None:
    batch = make_batch(
        [(b"k", None, (("h", b"x"), ("n", None))), (None, b"v" * 200, ())],
        timestamp=1000,
        timestamps=[1000, 3],
    )
    assert records_of(bytes(batch)) == (
        SeenRecord(0, 1000, 0, b"k", None, ((b"h", b"x"), (b"n", None))),
        SeenRecord(1, 3, 0, None, b"v" * 200, ()),
    )


@pytest.mark.parametrize("codecs", CODECS)
def test_the_source_holds_the_same_records_whatever_its_codec(codecs: str) -> None:
    for at in range(16):
        compressed, plain = made("fresh", at, 0, codecs), made("fresh", at)
        assert records_of(compressed.data) == records_of(plain.data)
        assert compressed.header.codec is CODECS[codecs](at)


def test_bytes_that_are_no_records_are_noticed() -> None:
    batch = bytes(made("fresh", 0).data)
    for wrong in (batch[:-1], batch + b"\0", batch[:61] + b"\x7f" + batch[62:]):
        with pytest.raises(Unreadable):
            records_of(wrong)


def test_every_batch_but_big_ones_is_as_small_as_every_topic_takes() -> None:
    for kind in KINDS:
        for codecs in CODECS:
            sizes = [
                len(made(kind, at, version, codecs).data)
                for at in range(0, LONGEST, 7)
                for version in (0, 1)
                if at != BIG_AT.get(kind)
            ]
            assert max(sizes) <= MOST_BYTES


def test_records_of_a_batch_have_several_times_that_are_not_in_order() -> None:
    times = [[record.timestamp for record in records_of(made("fresh", at).data)] for at in range(20)]
    assert any(each != sorted(each) for each in times)
    assert any(each != sorted(each, reverse=True) for each in times)


def test_some_kinds_have_holes_between_batches_and_in_them() -> None:
    assert {kind for kind in KINDS if any(hole_before(kind, at) for at in range(64))} == {"hole", "compacted"}
    assert {kind for kind in KINDS if any(not made(kind, at).header.is_dense for at in range(64))} == {
        "compacted"
    }
