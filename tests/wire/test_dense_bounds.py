"""Hostile bytes at the end of what may be read, for the kernels of dense batches: an answer or a typed error, and
nothing beyond is touched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.errors import ProtocolError
from heliograph.wire.batch import BatchHeader, Codec, read_header, split_batches
from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.compare_dense import dense_difference
from heliograph.wire.dense import dense_batch
from heliograph.wire.filler import encoded_fillers, last_filler_offset
from heliograph.wire.kernels import density as of
from heliograph.wire.kernels.loading import Kernels

from .batches import make_batch
from .guarded import guarded
from .hostile import Mutation
from .logs import Batch
from .sparse_logs import SparseBatch, sparse_logs
from .test_kernel_bounds import CUT_RECORDS, damages, hostile_log, logs, mended, typed


def split(data: memoryview) -> list[tuple[BatchHeader, memoryview]]:
    """Each with a wall of its own behind it."""
    try:
        return [(header, guarded(bytes(view))) for header, view in split_batches(data)]
    except ProtocolError:
        return []


@given(
    log=logs,
    mutate=damages,
    nth=st.integers(-1, 4),
    mend=st.booleans(),
    first=st.integers(0, 12),
    limit=st.integers(0, 900),
    codec=st.sampled_from([Codec.NONE, Codec.ZSTD]),
)
def test_making_a_dense_batch_stays_inside(
    kernels: Kernels,
    log: list[Batch],
    mutate: Mutation,
    nth: int,
    mend: bool,
    first: int,
    limit: int,
    codec: Codec,
) -> None:
    batches = split(memoryview(hostile_log(log, mutate, nth, mend=mend)))
    typed(
        lambda: dense_batch(
            kernels,
            batches,
            first_offset=first,
            next_offset=first + 40,
            filler_time_ms=10**12,
            codec=codec,
            limit_bytes=limit,
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
        )
    )


@given(
    log=logs,
    mutate=damages,
    nth=st.integers(-1, 4),
    room=st.integers(0, 700),
    first=st.integers(-5, 20),
    size=st.sampled_from([-1, 0, 1, 9, 63, 64, 65, 200, 8193, 100_000, 100_001, 2**40]),
)
def test_densifying_what_nobody_has_verified_stays_inside_source_fillers_and_target(
    kernels: Kernels, log: list[Batch], mutate: Mutation, nth: int, room: int, first: int, size: int
) -> None:
    source = np.frombuffer(guarded(hostile_log(log, mutate, nth, mend=False) or b"\0"), np.uint8)
    target = np.frombuffer(guarded(bytes(room + 1)), np.uint8)
    numbers = np.zeros(of.NUMBERS, np.int64)
    numbers[of.WRITTEN_TO] = HEADER_BYTES
    for fillers in (FILLERS, FILLERS[:50]):
        ended = kernels.densify(source, fillers, target, numbers, first, first + size, 10**12)
        if ended != of.BROKEN:
            assert HEADER_BYTES <= numbers[of.WRITTEN_TO] <= len(target)
            assert 0 <= numbers[of.RECORDS] <= numbers[of.OFFSETS] <= size


@given(batch=sparse_logs((Codec.NONE,)), mutate=damages)
def test_looking_for_fillers_stays_inside(
    kernels: Kernels, batch: list[SparseBatch], mutate: Mutation
) -> None:
    for each in batch:
        data = guarded(mended(mutate(bytes(each.encode()))))
        typed(lambda data=data: last_filler_offset(kernels, read_header(data), data))  # type: ignore[misc]
        octets = np.frombuffer(data, np.uint8)
        kernels.find_fillers(octets, 0, 2**63 - 1)


@given(a=logs, b=logs, mutate=damages, nth=st.integers(-1, 4), mend=st.booleans(), holes=st.booleans())
def test_comparing_a_dense_batch_stays_inside(
    kernels: Kernels, a: list[Batch], b: list[Batch], mutate: Mutation, nth: int, mend: bool, holes: bool
) -> None:
    hostile = guarded(hostile_log(a, mutate, nth, mend=mend))
    honest = guarded(hostile_log(b, bytes, 0, mend=False))
    for target, source in ((hostile, honest), (honest, hostile), (hostile, hostile)):
        typed(
            lambda target=target, source=source: dense_difference(  # type: ignore[misc]
                kernels,
                target,
                split(source),
                first_offset=0,
                next_offset=2**62,
                holes=range(3) if holes else (),
            )
        )


@pytest.mark.parametrize("payload", CUT_RECORDS, ids=bytes.hex)
def test_a_record_that_ends_inside_a_field_is_read_no_further(kernels: Kernels, payload: bytes) -> None:
    """With the mark of a filler, where it is long enough for one."""
    for cut in (payload, payload[:1] + b"\x48" + payload[2:]):
        batch = guarded(make_batch([(None, None, [])], compress=lambda _, cut=cut: cut))  # type: ignore[misc]
        octets = np.frombuffer(batch, np.uint8)
        kernels.find_fillers(octets, 0, 9)
        kernels.densify(octets, FILLERS, np.empty(1000, np.uint8), np.zeros(of.NUMBERS, np.int64), 0, 9, 0)
        header = read_header(batch)
        typed(
            lambda batch=batch, header=header: dense_difference(  # type: ignore[misc]
                kernels, batch, [(header, batch)], first_offset=0, next_offset=9
            )
        )


FILLERS = np.frombuffer(guarded(encoded_fillers()), np.uint8)
