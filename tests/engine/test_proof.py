"""Both ends of a control line prove that they hold the run's secret; nobody else proves anything."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from heliograph.engine.frames import framed, read
from heliograph.engine.proof import UNPROVEN_LIMIT, new_secret, prove_as_driver, prove_as_lane
from heliograph.model.errors import ProtocolError

SECRET = b"s" * 32


def sent(message: dict[str, Any]) -> bytes:
    return framed(json.dumps(message).encode())


class End:
    """One end of a line: what is written there is read at the other."""

    def __init__(self, reader: asyncio.StreamReader, others: asyncio.StreamReader) -> None:
        self._reader, self._others = reader, others

    async def readexactly(self, size: int) -> bytes:
        return await self._reader.readexactly(size)

    def write(self, data: bytes) -> None:
        self._others.feed_data(data)

    def close(self) -> None:
        self._others.feed_eof()


def both_ends() -> tuple[End, End]:
    one, other = asyncio.StreamReader(), asyncio.StreamReader()
    return End(one, other), End(other, one)


def test_secrets_are_long_and_never_the_same() -> None:
    assert len(new_secret()) == 32
    assert new_secret() != new_secret()


async def handshake(lane_secret: bytes, driver_secret: bytes, lane: int = 3) -> list[Any]:
    """Both sides against each other; what each returned or raised: [driver's, lane's]."""
    at_driver, at_lane = both_ends()

    async def driver() -> int:
        try:
            return await prove_as_driver(at_driver, driver_secret)
        finally:
            at_driver.close()

    async def the_lane() -> None:
        try:
            await prove_as_lane(at_lane, lane_secret, lane)
        finally:
            at_lane.close()

    return list(await asyncio.gather(driver(), the_lane(), return_exceptions=True))


async def test_both_sides_of_one_run_prove_themselves() -> None:
    assert await handshake(SECRET, SECRET) == [3, None]


async def test_a_lane_with_another_secret_is_refused_and_learns_nothing() -> None:
    for_driver, for_lane = await handshake(b"x" * 32, SECRET)
    assert isinstance(for_driver, ProtocolError)
    assert isinstance(for_lane, ProtocolError)


async def driver_meets(answer: bytes) -> None:
    """The driver's side of the handshake against a peer that answers with these bytes."""
    at_driver, at_peer = both_ends()
    at_peer.write(answer)
    at_peer.close()
    await prove_as_driver(at_driver, SECRET)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"challenge": "c", "lane": 1},
        {"proof": "p", "lane": 1},
        {"challenge": 1, "proof": 2, "lane": 1},
        {"challenge": "c", "proof": "", "lane": 1},
        {"challenge": "c", "proof": "0" * 64, "lane": 1},
        {"challenge": "c", "proof": "é", "lane": 1},
        {"challenge": "\ud800", "proof": "0" * 64, "lane": 1},
        {"type": "progress", "partitions": []},
    ],
)
async def test_whoever_proves_nothing_is_a_protocol_error_to_the_driver(answer: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        await driver_meets(sent(answer))


async def test_a_peer_that_closes_at_once_is_a_protocol_error_to_the_driver() -> None:
    with pytest.raises(ProtocolError):
        await driver_meets(b"")


async def test_an_unproven_peer_cannot_send_a_large_frame() -> None:
    with pytest.raises(ProtocolError, match="over the limit"):
        await driver_meets(framed(json.dumps({"challenge": "c" * UNPROVEN_LIMIT}).encode()))


async def test_a_proof_cannot_be_replayed_against_another_challenge() -> None:
    """The lane's own proof, sent back by a driver without the secret, does not prove the driver."""

    at_driver, at_lane = both_ends()
    proving = asyncio.create_task(prove_as_lane(at_lane, SECRET, 1))
    at_driver.write(sent({"challenge": "ab"}))
    answer = await read(at_driver)
    assert answer is not None
    at_driver.write(sent({"proof": json.loads(answer)["proof"]}))
    with pytest.raises(ProtocolError, match="could not prove"):
        await proving
