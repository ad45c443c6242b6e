"""How both ends of a control line prove that they are of one run, before anything else is said. Streams are passed in.

    driver ─▶ lane   {"challenge": d}
    lane ─▶ driver   {"challenge": l, "lane": n, "proof": HMAC(secret, "lane" d l)}
    driver ─▶ lane   {"proof": HMAC(secret, "driver" l d)}

Only who has the run's secret can prove anything, and the secret is in the task's closure alone. Until the proof
is given a frame may hold `UNPROVEN_LIMIT` bytes and nothing but the proof is read.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from typing import Any

from heliograph.engine.frames import framed, json_object, read
from heliograph.model.errors import ProtocolError

UNPROVEN_LIMIT = 1 << 10
PROOF_TIMEOUT_S = 5.0
TURN_LIMIT_S = 20.0  # how long the driver may let a peer wait for its challenge while many come at once


def new_secret() -> bytes:
    return secrets.token_bytes(32)


async def prove_as_lane(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes, lane: int
) -> None:
    """From the lane's side; ProtocolError if the driver is not who started us."""
    async with asyncio.timeout(TURN_LIMIT_S + PROOF_TIMEOUT_S):
        theirs = _text(await _read(reader), "challenge")
    async with asyncio.timeout(PROOF_TIMEOUT_S):
        ours = secrets.token_hex(16)
        _write(writer, {"challenge": ours, "lane": lane, "proof": _proof(secret, "lane", theirs, ours)})
        answer = _text(await _read(reader), "proof")
    if not hmac.compare_digest(answer, _proof(secret, "driver", ours, theirs)):
        raise ProtocolError("the driver could not prove who it is")


async def prove_as_driver(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes) -> int:
    """From the driver's side; return the lane's number, or raise."""
    async with asyncio.timeout(PROOF_TIMEOUT_S):
        ours = secrets.token_hex(16)
        _write(writer, {"challenge": ours})
        answer = await _read(reader)
        theirs, proof = _text(answer, "challenge"), _text(answer, "proof")
    if not hmac.compare_digest(proof, _proof(secret, "lane", ours, theirs)):
        raise ProtocolError("a peer without the run's secret")
    _write(writer, {"proof": _proof(secret, "driver", theirs, ours)})
    lane = answer.get("lane")
    if not isinstance(lane, int):
        raise ProtocolError("a lane without a number")
    return lane


def _write(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(framed(json.dumps(message).encode()))


async def _read(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Nothing, where the line has ended."""
    body = await read(reader, UNPROVEN_LIMIT)
    return json_object(body) if body is not None else {}


def _proof(secret: bytes, role: str, first: str, second: str) -> str:
    return hmac.digest(secret, f"{role}\0{first}\0{second}".encode(), "sha256").hex()


def _text(message: dict[str, Any], key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str) or not value.isascii():
        raise ProtocolError(f"a handshake without {key}")
    return value
