"""Both ends of a control line prove that they hold the run's secret; nobody else proves anything."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from heliograph.engine import proof
from heliograph.engine.frames import framed, read
from heliograph.engine.proof import UNPROVEN_LIMIT, new_secret
from heliograph.model.errors import ProtocolError

SECRET = b"s" * 32


def sent(message: dict[str, Any]) -> bytes:
    return framed(json.dumps(message).encode())


class Wire:
    """The writer's side of a stream that ends in a reader: what the handshake needs of a StreamWriter."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def write(self, data: bytes) -> None:
        self._reader.feed_data(data)


def test_secrets_are_long_and_never_the_same() -> None:
    assert len(new_secret()) == 32
    assert new_secret() != new_secret()


async def handshake(lane_secret: bytes, driver_secret: bytes, lane: int = 3) -> list[Any]:
    """Both sides against each other; what each returned or raised: [driver's, lane's]."""
    to_driver, to_lane = asyncio.StreamReader(), asyncio.StreamReader()

    async def driver() -> int:
        try:
            return await proof.prove_as_driver(to_driver, Wire(to_lane), driver_secret)  # type: ignore[arg-type]
        finally:
            to_lane.feed_eof()

    async def the_lane() -> None:
        try:
            await proof.prove_as_lane(to_lane, Wire(to_driver), lane_secret, lane)  # type: ignore[arg-type]
        finally:
            to_driver.feed_eof()

    return list(await asyncio.gather(driver(), the_lane(), return_exceptions=True))


async def test_both_sides_of_one_run_prove_themselves() -> None:
    assert await handshake(SECRET, SECRET) == [3, None]


async def test_a_lane_with_another_secret_is_refused_and_learns_nothing() -> None:
    for_driver, for_lane = await handshake(b"x" * 32, SECRET)
    assert isinstance(for_driver, ProtocolError)
    assert isinstance(for_lane, ProtocolError)


async def driver_meets(answer: bytes) -> None:
    """The driver's side of the handshake against a peer that answers with these bytes."""
    reader = asyncio.StreamReader()
    reader.feed_data(answer)
    reader.feed_eof()
    await proof.prove_as_driver(reader, Wire(asyncio.StreamReader()), SECRET)  # type: ignore[arg-type]


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

    to_lane, to_driver = asyncio.StreamReader(), asyncio.StreamReader()
    proving = asyncio.create_task(
        proof.prove_as_lane(to_lane, Wire(to_driver), SECRET, 1)  # type: ignore[arg-type]
    )
    to_lane.feed_data(sent({"challenge": "ab"}))
    answer = await read(to_driver)
    assert answer is not None
    to_lane.feed_data(sent({"proof": json.loads(answer)["proof"]}))
    with pytest.raises(ProtocolError, match="could not prove"):
        await proving
