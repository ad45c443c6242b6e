"""Hostile bytes at the end of what may be read: kernels give an answer or a typed error and touch nothing beyond.

Checksums are made right again after every mutation: else little would get past them.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.errors import CorruptBatch, ProtocolError
from heliograph.wire.batch import Codec, read_header
from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.compare import first_difference
from heliograph.wire.decode import decode
from heliograph.wire.kernels import pieces, survey
from heliograph.wire.kernels import progress as of
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.kernels.rows import COLUMNS
from heliograph.wire.merge import merge
from heliograph.wire.merge_plain import new_progress
from heliograph.wire.plain import plain_batches
from heliograph.wire.recode import ANY_TIME, Times, recode
from heliograph.wire.runs import split_runs

from .batches import make_batch
from .guarded import guarded
from .hostile import Mutation, mutations
from .logs import Batch, batches, encode
from .message_sets import encode_message

logs = st.lists(batches(), min_size=1, max_size=5)
# Numbers that do not end where the record does.
open_ended = st.integers(1, 12).map(lambda size: lambda body: body[:-size] + b"\xff" * size)
damages = mutations | open_ended


def mended(batch: bytes) -> bytes:
    """With the length and the checksum that it would have had."""
    if len(batch) < HEADER_BYTES:
        return batch
    whole = bytearray(batch)
    struct.pack_into(">i", whole, 8, len(whole) - 12)
    whole[16] = 2
    struct.pack_into(">I", whole, 17, crc32c(bytes(whole[21:])))
    return bytes(whole)


def hostile_log(log: list[Batch], mutate: Mutation, nth: int, *, mend: bool) -> bytes:
    encoded = [bytes(each) for each in encode(log)]
    broken = mutate(encoded[nth % len(log)])
    encoded[nth % len(log)] = mended(broken) if mend else broken
    return b"".join(encoded)


def typed(work: Callable[[], object]) -> None:
    """Any other error leaves this function and fails the test; a byte too many ends the process."""
    try:
        work()
    except ProtocolError:
        return


@given(log=logs, mutate=damages, nth=st.integers(-1, 4), mend=st.booleans())
def test_scanning_and_merging_stay_inside(
    kernels: Kernels, log: list[Batch], mutate: Mutation, nth: int, mend: bool
) -> None:
    data = guarded(hostile_log(log, mutate, nth, mend=mend))
    typed(
        lambda: merge(
            kernels,
            split_runs(data),
            limit_bytes=1 << 20,
            max_records=2**31 - 1,
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
        )
    )


@given(log=logs, mutate=damages, nth=st.integers(-1, 4), room=st.integers(HEADER_BYTES, 1000))
def test_joining_what_nobody_has_verified_stays_inside_source_and_target(
    kernels: Kernels, log: list[Batch], mutate: Mutation, nth: int, room: int
) -> None:
    source = np.frombuffer(guarded(hostile_log(log, mutate, nth, mend=False)), np.uint8)
    target = np.frombuffer(guarded(bytes(room)), np.uint8)
    progress = new_progress()
    kernels.join(source, target, progress, 2**31 - 1, 2**31)
    assert HEADER_BYTES <= progress[of.WRITTEN_TO] <= room
    assert 0 <= progress[of.READ_AT] <= len(source)


@given(a=logs, b=logs, mutate=damages, nth=st.integers(-1, 4), mend=st.booleans())
def test_comparing_stays_inside(
    kernels: Kernels, a: list[Batch], b: list[Batch], mutate: Mutation, nth: int, mend: bool
) -> None:
    hostile = guarded(hostile_log(a, mutate, nth, mend=mend))
    honest = guarded(b"".join(encode(b)))
    for sides in ((hostile, honest), (honest, hostile), (hostile, hostile)):
        typed(
            lambda sides=sides: first_difference(  # type: ignore[misc]
                kernels, sides[:1], sides[1:], first_offset=0, next_offset=2**62
            )
        )


@given(
    batch=batches(max_size=8),
    mutate=damages,
    first=st.integers(0, 12),
    limit=st.integers(0, 600),
    clamp=st.booleans(),
)
def test_recoding_stays_inside(
    kernels: Kernels, batch: Batch, mutate: Mutation, first: int, limit: int, clamp: bool
) -> None:
    data = guarded(mended(mutate(bytes(batch.encode(3)))))
    times = Times(earliest=10**12, latest=2 * 10**12) if clamp else ANY_TIME

    def work() -> None:
        header = read_header(data)
        if 0 <= first <= header.last_offset_delta:
            recode(
                kernels,
                plain_batches([data]),
                Codec.NONE,
                first_offset=header.base_offset + first,
                limit_bytes=limit,
                times=times,
            )

    typed(work)


@given(
    batch=batches(max_size=8), mutate=damages, room=st.integers(HEADER_BYTES, 400), first=st.integers(-3, 9)
)
def test_carving_stays_inside_source_and_target(
    kernels: Kernels, batch: Batch, mutate: Mutation, room: int, first: int
) -> None:
    source = np.frombuffer(guarded(mended(mutate(bytes(batch.encode(3)))).ljust(HEADER_BYTES)), np.uint8)
    target = np.frombuffer(guarded(bytes(room)), np.uint8)
    progress = np.zeros(pieces.NUMBERS, np.int64)
    progress[[pieces.READ_AT, pieces.LAST_DELTA, pieces.WRITTEN_TO]] = HEADER_BYTES, -1, HEADER_BYTES
    kernels.carve(source, target, progress, first, 2**31, pieces.NO_EARLIEST, pieces.NO_LATEST)
    assert HEADER_BYTES <= progress[pieces.WRITTEN_TO] <= room
    assert 0 <= progress[pieces.READ_AT] <= len(source)


@given(data=st.binary(max_size=120), magic=st.sampled_from([0, 1]), room=st.integers(HEADER_BYTES, 200))
def test_old_messages_of_any_bytes_are_read_inside(
    kernels: Kernels, data: bytes, magic: int, room: int
) -> None:
    source = np.frombuffer(guarded(data or b"\0"), np.uint8)
    target = np.frombuffer(guarded(bytes(room)), np.uint8)
    numbers = np.zeros(survey.NUMBERS, np.int64)
    assert kernels.gather(source, 0, magic, 1000, numbers) >= 0
    kernels.convert(source, magic, target, False, 0, numbers)
    message = encode_message((b"key", data, 5), offset=3, magic=magic)
    kernels.convert(np.frombuffer(guarded(message), np.uint8), magic, target, True, 7, numbers)


@given(batch=batches(), mutate=damages)
def test_decoding_stays_inside(kernels: Kernels, batch: Batch, mutate: Mutation) -> None:
    data = guarded(mended(mutate(bytes(batch.encode(3)))))
    typed(lambda: decode(kernels, data))


# Each ends inside a field: size, attributes, two deltas, key, value, count of headers, a header's name and content.
CUT_RECORDS = [
    b"",
    b"\xff",
    b"\xff\xff\xff\xff\xff\x0f",
    b"\x02\0",
    b"\x04\0\xff",
    b"\x04\0\0",
    b"\x06\0\0\x80",
    b"\x06\0\0\0",
    b"\x08\0\0\0\x02",
    b"\x08\0\0\0\x01",
    b"\x0a\0\0\0\x01\xff",
    b"\x0a\0\0\0\x01\x01",
    b"\x0c\0\0\0\x01\x01\xff",
    b"\x0c\0\0\0\x01\x01\x02",
    b"\x0e\0\0\0\x01\x01\x02\xff",
    b"\x0e\0\0\0\x01\x01\x02\0",
    b"\x10\0\0\0\x01\x01\x02\0\x80",
    b"\x10\0\0\0\x01\x01\x02\0\x02",
]


@pytest.mark.parametrize("payload", CUT_RECORDS, ids=bytes.hex)
def test_a_record_that_ends_inside_a_field_is_read_no_further(kernels: Kernels, payload: bytes) -> None:
    batch = guarded(make_batch([(None, None, [])], compress=lambda _: payload))
    with pytest.raises(CorruptBatch):
        decode(kernels, batch)
    typed(lambda: first_difference(kernels, [batch], [batch], first_offset=0, next_offset=9))
    source = np.frombuffer(batch, np.uint8)
    kernels.join(source, np.empty(1000, np.uint8), new_progress(), 9, 9)
    kernels.scan(source, 0, 1000, 1000, 0, 0, np.empty((9, COLUMNS), np.int64))
    typed(lambda: recode(kernels, batch, Codec.NONE, first_offset=0, limit_bytes=1000))


@pytest.mark.parametrize("what", ["read", "write"])
def test_the_wall_is_there(what: str) -> None:
    touch = {"read": "ctypes.string_at(at + 5, 1)", "write": "ctypes.memset(at + 5, 1, 1)"}[what]
    code = (
        "import ctypes; from tests.wire.guarded import guarded; v = guarded(b'12345');"
        f"at = ctypes.addressof(ctypes.c_char.from_buffer(v)); ctypes.string_at(at + 4, 1); {touch}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode < 0
