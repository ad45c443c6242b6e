"""The control line's bytes: length-limited JSON frames and the mutual proof of who speaks. Streams are passed in.

    driver ─▶ lane   {"challenge": d}
    lane ─▶ driver   {"challenge": l, "lane": n, "proof": HMAC(secret, "lane" d l)}
    driver ─▶ lane   {"proof": HMAC(secret, "driver" l d)}

Only who has the run's secret can prove anything, and the secret is in the task's closure alone. Until the proof
is given a frame may hold `UNPROVEN_LIMIT` bytes and nothing but the proof is read. Frames are JSON, never pickle.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from typing import Any

from heliograph.model.errors import Disconnected, ProtocolError

UNPROVEN_LIMIT = 1 << 10
FRAME_LIMIT = 8 << 20
PROOF_TIMEOUT_S = 5.0
TURN_LIMIT_S = 20.0  # how long the driver may let a peer wait for its challenge while many come at once

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > FRAME_LIMIT:
        raise ProtocolError(f"a control frame of {len(body)} bytes is over the limit of {FRAME_LIMIT}")
    return len(body).to_bytes(4, "big") + body


async def read(reader: asyncio.StreamReader, limit: int = FRAME_LIMIT) -> Message | None:
    """The next frame; None at the end of the line."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > limit:
            raise ProtocolError(f"a control frame of {size} bytes is over the limit of {limit}")
        body = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except OSError as problem:
        raise Disconnected(f"the network was cut: {problem}") from problem
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise ProtocolError("a control frame that is not JSON") from problem
    if not isinstance(message, dict):
        raise ProtocolError("a control frame that is not an object")
    return message


def new_secret() -> bytes:
    return secrets.token_bytes(32)


async def prove_as_lane(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes, lane: int
) -> None:
    """Run the handshake from the lane's side; ProtocolError if the driver is not who started us."""
    async with asyncio.timeout(TURN_LIMIT_S + PROOF_TIMEOUT_S):
        theirs = _text(await read(reader, UNPROVEN_LIMIT), "challenge")
    async with asyncio.timeout(PROOF_TIMEOUT_S):
        ours = secrets.token_hex(16)
        writer.write(encode({"challenge": ours, "lane": lane, "proof": _proof(secret, "lane", theirs, ours)}))
        answer = _text(await read(reader, UNPROVEN_LIMIT), "proof")
    if not hmac.compare_digest(answer, _proof(secret, "driver", ours, theirs)):
        raise ProtocolError("the driver could not prove who it is")


async def prove_as_driver(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes) -> int:
    """Run the handshake from the driver's side; return the lane's number, or raise."""
    async with asyncio.timeout(PROOF_TIMEOUT_S):
        ours = secrets.token_hex(16)
        writer.write(encode({"challenge": ours}))
        answer = await read(reader, UNPROVEN_LIMIT)
        theirs, proof = _text(answer, "challenge"), _text(answer, "proof")
    if not hmac.compare_digest(proof, _proof(secret, "lane", ours, theirs)):
        raise ProtocolError("a peer without the run's secret")
    writer.write(encode({"proof": _proof(secret, "driver", theirs, ours)}))
    lane = (answer or {}).get("lane")
    if not isinstance(lane, int):
        raise ProtocolError("a lane without a number")
    return lane


def _proof(secret: bytes, role: str, first: str, second: str) -> str:
    return hmac.digest(secret, f"{role}\0{first}\0{second}".encode(), "sha256").hex()


def _text(message: Message | None, key: str) -> str:
    value = (message or {}).get(key)
    if not isinstance(value, str) or not value.isascii():
        raise ProtocolError(f"a handshake without {key}")
    return value
