"""Whose a log's last data is: markers behind it are passed over, nothing is guessed (the client's broker is a fake)."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse

from heliograph.cluster import last_writer
from heliograph.cluster.last_writer import read_last_writer
from heliograph.model.errors import RequestFailed
from heliograph.wire.api_keys import ApiKey
from tests.wire.batches import ABORT, make_batch, make_control_batch

from .test_log_reads import WHERE, FakeClient, span_of

VERSION = 11
OURS, THEIRS = 7, 8


def data(offset: int, writer: int, records: int = 1) -> bytearray:
    return make_batch(
        [(None, b"value", [])] * records, base_offset=offset, producer_id=writer, base_sequence=offset
    )


def marker(offset: int, writer: int = OURS) -> bytearray:
    return make_control_batch(ABORT, base_offset=offset, producer_id=writer)


class Log(FakeClient):
    """Answers fetches from these batches, by their first offsets. Plays client and connection."""

    address = "127.0.0.1:9092"
    versions = {ApiKey.FETCH: (4, VERSION)}  # noqa: RUF012 - a constant of the fake

    def __init__(self, batches: dict[int, bytearray], span: tuple[int, int, int]) -> None:
        super().__init__(span_of(*span))
        self._batches = batches

    async def connection(self, _node: int, _purpose: str) -> Any:
        return self

    async def request(self, _key: int, version: int, parts: list[bytes], **_: Any) -> memoryview:
        asked = FetchRequest.decode(b"".join(parts), version=version)
        (want,) = asked.topics[0].partitions
        size = want.partition_max_bytes
        found = b""
        for offset, batch in sorted(self._batches.items()):
            ends_at = min([each for each in self._batches if each > offset], default=1 << 62)
            if ends_at > want.fetch_offset and (not found or len(found) + len(batch) <= size):
                found += batch
        topic = FetchResponse.FetchableTopicResponse
        answer = topic.PartitionData(
            partition_index=0,
            error_code=0,
            high_watermark=100,
            last_stable_offset=100,
            log_start_offset=0,
            aborted_transactions=[],
            preferred_read_replica=-1,
            records=found,
        )
        return memoryview(
            FetchResponse(
                throttle_time_ms=0,
                error_code=0,
                session_id=0,
                responses=[topic(topic="orders", partitions=[answer])],
            ).encode(version=VERSION)
        )


async def writer_of(batches: dict[int, bytearray], start: int, end: int) -> int | None:
    client: Any = Log(batches, (start, end, end))
    return await read_last_writer(client, WHERE)


@pytest.mark.parametrize(
    ("batches", "span", "expected"),
    [
        ({}, (0, 0), None),
        ({}, (9, 9), None),
        ({0: data(0, OURS)}, (0, 1), OURS),
        ({0: data(0, OURS), 1: data(1, THEIRS)}, (0, 2), THEIRS),
        ({0: data(0, OURS, 5), 5: marker(5)}, (0, 6), OURS),
        ({0: data(0, THEIRS), **{n: marker(n) for n in range(1, 40)}}, (0, 40), THEIRS),
        ({0: data(0, OURS), 30: marker(30)}, (0, 31), OURS),  # compaction has left a hole
        ({5: marker(5), 6: marker(6)}, (5, 7), None),
        ({0: data(0, OURS)}, (0, 20), OURS),
    ],
)
async def test_the_last_batch_that_is_no_marker_tells_who_wrote(
    batches: dict[int, bytearray], span: tuple[int, int], expected: int | None
) -> None:
    assert await writer_of(batches, *span) == expected


async def test_of_a_log_that_is_being_written_nothing_is_said() -> None:
    client: Any = Log({0: data(0, OURS)}, (0, 1, 2))
    with pytest.raises(RequestFailed, match="is being written right now"):
        await read_last_writer(client, WHERE)


async def test_a_long_row_of_markers_is_not_read_to_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_writer, "MOST_MARKERS", 16)
    with pytest.raises(RequestFailed, match="the last 16 offsets of orders:0 hold no data"):
        await writer_of({0: data(0, OURS), **{n: marker(n) for n in range(1, 60)}}, 0, 60)
