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

from heliograph.model.errors import ProtocolError
from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.compare import first_difference
from heliograph.wire.decode import decode
from heliograph.wire.kernels import progress as of
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.merge import merge
from heliograph.wire.runs import split_runs

from .guarded import guarded
from .hostile import Mutation, mutations
from .logs import Batch, batches, encode

logs = st.lists(batches(), min_size=1, max_size=5)


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


@given(log=logs, mutate=mutations, nth=st.integers(0, 4), mend=st.booleans())
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


@given(log=logs, mutate=mutations, nth=st.integers(0, 4), room=st.integers(HEADER_BYTES, 1000))
def test_joining_what_nobody_has_verified_stays_inside_source_and_target(
    kernels: Kernels, log: list[Batch], mutate: Mutation, nth: int, room: int
) -> None:
    source = np.frombuffer(guarded(hostile_log(log, mutate, nth, mend=False)), np.uint8)
    target = np.frombuffer(guarded(bytes(room)), np.uint8)
    progress = np.zeros(of.NUMBERS, np.int64)
    progress[of.WRITTEN_TO] = HEADER_BYTES
    kernels.join(source, target, progress, 2**31 - 1, 2**31)
    assert HEADER_BYTES <= progress[of.WRITTEN_TO] <= room
    assert 0 <= progress[of.READ_AT] <= len(source)


@given(a=logs, b=logs, mutate=mutations, nth=st.integers(0, 4), mend=st.booleans())
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


@given(batch=batches(), mutate=mutations)
def test_decoding_stays_inside(kernels: Kernels, batch: Batch, mutate: Mutation) -> None:
    data = guarded(mended(mutate(bytes(batch.encode(3)))))
    typed(lambda: decode(kernels, data))


@pytest.mark.parametrize("what", ["read", "write"])
def test_the_wall_is_there(what: str) -> None:
    touch = {"read": "ctypes.string_at(at + 5, 1)", "write": "ctypes.memset(at + 5, 1, 1)"}[what]
    code = (
        "import ctypes; from tests.wire.guarded import guarded; v = guarded(b'12345');"
        f"at = ctypes.addressof(ctypes.c_char.from_buffer(v)); ctypes.string_at(at + 4, 1); {touch}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode < 0
