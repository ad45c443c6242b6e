"""How both ends of a control line prove that they are of one run, before anything else is said. Lines are passed in.

    driver ─▶ lane   {"challenge": d}
    lane ─▶ driver   {"challenge": l, "lane": n, "proof": HMAC(secret, "lane" d l)}
    driver ─▶ lane   {"proof": HMAC(secret, "driver" l d)}

Only who has the run's secret can prove anything, and the secret is in the task's closure alone. Until the proof
is given a frame may hold `UNPROVEN_LIMIT` bytes and nothing but the proof is read. How long it may take is up to the
callers, which are given the limits here.
"""

from __future__ import annotations

import hmac
import json
import secrets
from typing import Any, Protocol

from heliograph.engine.frames import Readable, framed, json_object, read
from heliograph.model.errors import ProtocolError

UNPROVEN_LIMIT = 1 << 10
PROOF_TIMEOUT_S = 5.0
TURN_LIMIT_S = 20.0  # how long the driver may let a peer wait for its turn while many come at once


class Line(Readable, Protocol):
    def write(self, data: bytes, /) -> None: ...


def new_secret() -> bytes:
    return secrets.token_bytes(32)


async def prove_as_lane(line: Line, secret: bytes, lane: int) -> None:
    """From the lane's side; ProtocolError if the driver is not who started us."""
    theirs = _text(await _read(line), "challenge")
    ours = secrets.token_hex(16)
    _write(line, {"challenge": ours, "lane": lane, "proof": _proof(secret, "lane", theirs, ours)})
    answer = _text(await _read(line), "proof")
    if not hmac.compare_digest(answer, _proof(secret, "driver", ours, theirs)):
        raise ProtocolError("the driver could not prove who it is")


async def prove_as_driver(line: Line, secret: bytes) -> int:
    """From the driver's side; return the lane's number, or raise."""
    ours = secrets.token_hex(16)
    _write(line, {"challenge": ours})
    answer = await _read(line)
    theirs, proof = _text(answer, "challenge"), _text(answer, "proof")
    if not hmac.compare_digest(proof, _proof(secret, "lane", ours, theirs)):
        raise ProtocolError("a peer without the run's secret")
    _write(line, {"proof": _proof(secret, "driver", theirs, ours)})
    lane = answer.get("lane")
    if not isinstance(lane, int):
        raise ProtocolError("a lane without a number")
    return lane


def _write(line: Line, message: dict[str, Any]) -> None:
    line.write(framed(json.dumps(message).encode()))


async def _read(line: Line) -> dict[str, Any]:
    """Nothing, where the line has ended."""
    body = await read(line, UNPROVEN_LIMIT)
    return json_object(body) if body is not None else {}


def _proof(secret: bytes, role: str, first: str, second: str) -> str:
    return hmac.digest(secret, f"{role}\0{first}\0{second}".encode(), "sha256").hex()


def _text(message: dict[str, Any], key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str) or not value.isascii():
        raise ProtocolError(f"a handshake without {key}")
    return value
