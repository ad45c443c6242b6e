"""The last filler of a target log: found from behind, alone or among records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.copier.find_filler import last_filler
from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import Codec
from heliograph.wire.codecs import compress
from heliograph.wire.kernels.loading import Kernels, wait
from tests.wire.batches import COMMIT, encode_record, make_batch, make_control_batch
from tests.wire.sparse_logs import marked

from .played_log import PlayedLog, drive, played
from .source_batches import batch


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return wait()


def mixed(at: int, pattern: str, codec: Codec = Codec.ZSTD) -> bytearray:
    """A letter for each offset: f, a filler; r, a record; a dot, nothing any more."""
    payload = b"".join(
        marked(delta) if letter == "f" else encode_record((b"k", b"v", ()), delta)
        for delta, letter in enumerate(pattern)
        if letter != "."
    )
    count = len(pattern) - pattern.count(".")
    return make_batch(
        [(None, None, ())] * count,
        base_offset=at,
        last_offset_delta=len(pattern) - 1,
        codec=codec,
        compress=lambda _: compress(codec, payload),
    )


def found(kernels: Kernels, log: PlayedLog, start: int = 0, below: int | None = None) -> int | None:
    return drive(log, last_filler(kernels, start, log.end if below is None else below))


def test_a_log_without_fillers_has_none(kernels: Kernels) -> None:
    log = played([batch(0, 3), make_control_batch(COMMIT, base_offset=3, producer_id=7), batch(9, 100)])
    assert found(kernels, log) is None
    assert found(kernels, played([])) is None


def test_the_last_of_a_batch_is_found_among_records(kernels: Kernels) -> None:
    log = played([mixed(0, "ffrf"), mixed(4, "rffr"), batch(8, 5)])
    assert found(kernels, log) == 6


def test_one_that_a_cleaner_left_is_found_behind_what_it_removed(kernels: Kernels) -> None:
    log = played([mixed(0, "ff.f"), mixed(4, "r..r"), batch(500_000, 5)])
    assert found(kernels, log) == 3


def test_only_offsets_of_the_range_count(kernels: Kernels) -> None:
    log = played([mixed(0, "ffrf"), mixed(4, "rfrf"), batch(8, 5)])
    assert found(kernels, log, below=7) == 5
    assert found(kernels, log, below=5) == 3
    assert found(kernels, log, start=4, below=5) is None
    assert found(kernels, log, start=7) == 7
    assert found(kernels, log, start=8) is None
    assert found(kernels, log, start=5, below=5) is None


def test_a_log_that_was_cleaned_takes_few_questions(kernels: Kernels) -> None:
    log = played([batch(0), *(mixed(at, "r".ljust(100_000, ".")) for at in range(5, 5 + 10**7, 10**5))])
    assert found(kernels, log) is None
    assert len(log.asked) < 120


def test_a_batch_that_cannot_be_read_is_corrupt(kernels: Kernels) -> None:
    log = played(
        [mixed(0, "ff"), make_batch([(b"k", b"v", ())], base_offset=2, compress=lambda _: b"\x02\0")]
    )
    with pytest.raises(CorruptBatch):
        found(kernels, log)


@settings(deadline=None)
@given(
    log=st.lists(st.tuples(st.integers(0, 150), st.text("frr.", min_size=1, max_size=60)), max_size=8),
    start=st.integers(0, 300),
    below=st.integers(0, 900),
    codec=st.sampled_from(Codec),
)
def test_the_last_filler_is_found_wherever_it_is(
    kernels: Kernels, log: list[tuple[int, str]], start: int, below: int, codec: Codec
) -> None:
    encoded: list[bytearray] = []
    fillers: list[int] = []
    at = 0
    for gap, pattern in log:
        at += gap
        encoded.append(mixed(at, pattern, codec))
        fillers += [at + delta for delta, letter in enumerate(pattern) if letter == "f"]
        at += len(pattern)
    inside = [offset for offset in fillers if start <= offset < below]
    assert found(kernels, played(encoded), start, below) == max(inside, default=None)
