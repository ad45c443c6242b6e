"""SIGSTOP of a lane amid its appends, for longer than its lease: none arrives whole after the lease's end (P2), in the
clear and under TLS."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
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
from tests.support.certificates import Authority, write_pem
from tests.support.hostile_peer import server_context

ROOT = Path(__file__).parents[2]
LEASE_S = 1.5
PRODUCE_VERSION = 8
READ_BYTES, READ_EVERY_S = 1 << 15, 0.004  # 8 MB/s: far less than the lane would send


class InTheClear:
    def opened(self, data: bytes) -> bytes:
        return data

    def sealed(self, data: bytes) -> bytes:
        return data


class UnderTls:
    """A server's end of TLS, without a socket."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_ready = False

    def opened(self, data: bytes) -> bytes:
        """What can be read by now: nothing of a record of TLS that is not there whole."""
        self._incoming.write(data)
        plain = bytearray()
        try:
            if not self._is_ready:
                self._tls.do_handshake()
                self._is_ready = True
            while True:
                plain += self._tls.read(READ_BYTES)
        except ssl.SSLWantReadError:
            return bytes(plain)

    def sealed(self, data: bytes) -> bytes:
        """Behind what TLS has to say by itself."""
        if data:
            self._tls.write(data)
        return self._outgoing.read()


class SlowBroker:
    """Reads slowly and takes every append. `appends`: when each was there whole, as the broker reads it. `context`: it
    speaks TLS."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        self.appends: list[float] = []
        self.unfinished_bytes = 0  # that came since the last whole request
        self.ended = False  # by the lane
        self._listener = listener
        self._context = context

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as lines:
            while True:
                sock, _ = await loop.sock_accept(self._listener)
                lines.create_task(self._listen(sock))

    async def _listen(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        end = UnderTls(self._context) if self._context is not None else InTheClear()
        received = bytearray()
        with sock:
            try:
                while data := await loop.sock_recv(sock, READ_BYTES):
                    received += end.opened(data)
                    replies = self._answers(received)
                    self.unfinished_bytes = len(received) if replies else self.unfinished_bytes + len(data)
                    if words := end.sealed(b"".join(replies)):
                        await loop.sock_sendall(sock, words)
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
async def lane_to(port: int, trust: Path | None) -> AsyncIterator[asyncio.subprocess.Process]:
    words = [str(port), str(LEASE_S), *([str(trust)] if trust is not None else [])]
    pipe = asyncio.subprocess.PIPE
    lane = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.mirror.lane_under_lease", *words, stdin=pipe, stdout=pipe, cwd=ROOT
    )
    try:
        yield lane
    finally:
        lane.kill()
        await lane.wait()


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("speaks_tls", [False, True], ids=["plain text", "TLS"])
async def test_no_append_arrives_whole_after_the_lease_of_a_lane_that_was_frozen_amid_it(
    speaks_tls: bool, tmp_path: Path
) -> None:
    authority = Authority.make("nyc")
    trust = write_pem(tmp_path / "trust.pem", trusted=[authority]) if speaks_tls else None
    context = server_context(authority.issue(["127.0.0.1"])) if speaks_tls else None
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        broker = SlowBroker(listener, context)
        serving = asyncio.create_task(broker.serve())
        async with lane_to(listener.getsockname()[1], trust) as lane:
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
