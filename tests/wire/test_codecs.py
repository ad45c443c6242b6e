"""Codecs: what we write we read, within a limit; hostile input is a typed error. Java and librdkafka judge in
test_kernels_kafka.py."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.errors import CorruptBatch, DecompressionLimit, ProtocolError
from heliograph.wire.batch import Codec
from heliograph.wire.codecs import compress, decompress

from .hostile import Mutation, mutations

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
PIECES = st.binary(max_size=200)
contents = st.builds(lambda piece, times: piece * times, PIECES, st.integers(0, 3000))
LONG = (
    os.urandom(70_000) + b"heliograph" * 20_000
)  # several blocks of every format, stored and compressed ones


@pytest.mark.parametrize("codec", list(Codec))
@given(content=contents)
def test_what_is_compressed_comes_back(codec: Codec, content: bytes) -> None:
    assert decompress(codec, compress(codec, content)) == content
    assert decompress(codec, compress(codec, content), limit_bytes=len(content)) == content


@pytest.mark.parametrize("codec", CODECS)
def test_content_of_several_blocks_comes_back(codec: Codec) -> None:
    packed = compress(codec, LONG)
    assert len(packed) < len(LONG) // 2
    assert decompress(codec, memoryview(packed)) == LONG


@pytest.mark.parametrize("codec", list(Codec))
@given(content=contents.filter(bool))
def test_a_byte_above_the_limit_is_refused(codec: Codec, content: bytes) -> None:
    with pytest.raises(DecompressionLimit):
        decompress(codec, compress(codec, content), limit_bytes=len(content) - 1)


def bombs() -> list[tuple[Codec, bytes]]:
    zeros = bytes(64 << 20)
    stream = cramjam.zstd.Compressor(level=3)  # as Java: no content size
    stream.compress(zeros)
    linked = cramjam.lz4.Compressor(block_linked=True)  # no content size either
    linked.compress(zeros)
    found = [(codec, compress(codec, zeros)) for codec in CODECS]
    return [*found, (Codec.ZSTD, bytes(stream.finish())), (Codec.LZ4, bytes(linked.finish()))]


def test_a_bomb_is_refused_before_its_memory_is_taken() -> None:
    limit = 1 << 20
    for codec, bomb in bombs():
        tracemalloc.start()
        with pytest.raises(DecompressionLimit):
            decompress(codec, bomb, limit_bytes=limit)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 3 * limit, codec


def test_a_zstd_window_that_no_client_takes_is_refused() -> None:
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 20 << 3) + b"\x01\0\0"  # 1 GB, and an empty last block
    with pytest.raises(DecompressionLimit, match="window of 1073741824"):
        decompress(Codec.ZSTD, frame)


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_decompressed_stays_when_something_else_is(codec: Codec) -> None:
    first = decompress(codec, compress(codec, b"first"))
    second = decompress(codec, compress(codec, b"other"))
    assert (bytes(first), bytes(second)) == (b"first", b"other")


def test_raw_snappy_is_read_as_librdkafka_writes_it() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(LONG))) == LONG


def test_linked_lz4_blocks_are_read_though_java_refuses_them() -> None:
    linked = cramjam.lz4.Compressor(level=1, content_checksum=True, block_linked=True)
    linked.compress(LONG)
    assert decompress(Codec.LZ4, bytes(linked.finish())) == LONG


def test_our_lz4_frames_have_independent_blocks_and_a_valid_header() -> None:
    frame = compress(Codec.LZ4, LONG)
    assert frame[4] & 0x20
    assert struct.unpack_from("<Q", frame, 6) == (len(LONG),)
    assert cramjam.lz4.decompress(frame) is not None  # a wrong header checksum would be refused
    wrong = bytearray(frame)
    wrong[14] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, bytes(wrong))


def test_a_gzip_stream_of_several_members_is_read_whole() -> None:
    assert bytes(decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"))) == b"onetwo"


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_cut_or_has_something_behind_it_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, LONG)
    for broken in (b"", packed[:1], packed[:7], packed[: len(packed) // 2], packed[:-1], packed + b"behind"):
        with pytest.raises(CorruptBatch):
            decompress(codec, broken)


@pytest.mark.parametrize("codec", CODECS)
@given(content=contents, mutate=mutations)
def test_hostile_input_decompresses_or_is_refused(codec: Codec, content: bytes, mutate: Mutation) -> None:
    try:
        assert len(decompress(codec, mutate(compress(codec, content)), limit_bytes=1 << 20)) <= 1 << 20
    except ProtocolError:
        return


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=100))
def test_random_bytes_decompress_or_are_refused(codec: Codec, data: bytes) -> None:
    try:
        decompress(codec, data, limit_bytes=1 << 20)
    except ProtocolError:
        return
