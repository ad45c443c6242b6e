"""SIGSTOP of a lane amid its appends, for longer than its lease: none arrives whole after the lease's end (P2)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kafka.protocol.producer.produce import ProduceRequest, ProduceResponse

from heliograph.model.clock import clock_of_suspended_time
from heliograph.wire.api_keys import ApiKey
from tests.cluster.peers import answer
from tests.copier.lane_world import until

ROOT = Path(__file__).parents[2]
LEASE_S = 1.5
PRODUCE_VERSION = 8
READ_BYTES, READ_EVERY_S = 1 << 15, 0.004  # 8 MB/s: far less than the lane would send


class SlowBroker:
    """Reads slowly and takes every append. `appends`: when each was there whole."""

    def __init__(self, listener: socket.socket) -> None:
        self.appends: list[float] = []
        self.unfinished_bytes = 0
        self.ended = False  # by the lane
        self._listener = listener

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as lines:
            while True:
                sock, _ = await loop.sock_accept(self._listener)
                lines.create_task(self._listen(sock))

    async def _listen(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        received = bytearray()
        with sock:
            try:
                while data := await loop.sock_recv(sock, READ_BYTES):
                    received += data
                    for reply in self._answers(received):
                        await loop.sock_sendall(sock, reply)
                    await asyncio.sleep(READ_EVERY_S)
            except ConnectionError:
                pass  # thrown away with what had not left
        self.ended = True

    def _answers(self, received: bytearray) -> list[bytes]:
        replies = []
        while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4], "big")):
            frame = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            replies.append(self._reply(frame))
        self.unfinished_bytes = len(received)
        return replies

    def _reply(self, frame: bytes) -> bytes:
        api_key, _, correlation_id, name_bytes = struct.unpack_from(">hhih", frame)
        if api_key == ApiKey.API_VERSIONS:
            offered = struct.pack(">hihhh", 0, 1, ApiKey.PRODUCE, 3, PRODUCE_VERSION)
            return answer(correlation_id, offered)
        self.appends.append(clock_of_suspended_time())
        return answer(correlation_id, took_all(frame[10 + name_bytes :]))


def took_all(body: bytes) -> bytes:
    """The answer to this request: each batch was appended at the offset that it names."""
    request = ProduceRequest.decode(body, version=PRODUCE_VERSION)
    topic_response = ProduceResponse.TopicProduceResponse
    topics = [
        topic_response(
            name=topic.name,
            partition_responses=[
                topic_response.PartitionProduceResponse(
                    index=partition.index,
                    error_code=0,
                    base_offset=int.from_bytes(partition.records[:8], "big"),
                    log_append_time_ms=-1,
                    log_start_offset=0,
                    record_errors=[],
                    error_message=None,
                )
                for partition in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return bytes(ProduceResponse(responses=topics, throttle_time_ms=0).encode(version=PRODUCE_VERSION))


@asynccontextmanager
async def lane_to(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    command = (sys.executable, "-m", "tests.mirror.lane_under_lease", str(port), str(LEASE_S))
    pipe = asyncio.subprocess.PIPE
    lane = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT)
    try:
        yield lane
    finally:
        lane.kill()
        await lane.wait()


@pytest.mark.slow
@pytest.mark.faults
async def test_no_append_arrives_whole_after_the_lease_of_a_lane_that_was_frozen_amid_it() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        broker = SlowBroker(listener)
        serving = asyncio.create_task(broker.serve())
        async with lane_to(listener.getsockname()[1]) as lane:
            assert lane.stdin is not None
            assert lane.stdout is not None
            await until(lambda: len(broker.appends) >= 4, 30)
            lane.stdin.write(b"renew no more\n")
            lease_until = float(await lane.stdout.readline())
            os.kill(lane.pid, signal.SIGSTOP)
            assert clock_of_suspended_time() < lease_until - LEASE_S / 2
            await asyncio.sleep(lease_until - clock_of_suspended_time() + LEASE_S)
            before = len(broker.appends)
            assert broker.unfinished_bytes > 0  # it was frozen amid a request
            os.kill(lane.pid, signal.SIGCONT)
            await asyncio.sleep(2)
            assert lane.returncode is None
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    late = [arrived - lease_until for arrived in broker.appends if arrived > lease_until]
    assert late == []
    assert before == len(broker.appends)
    assert broker.ended
