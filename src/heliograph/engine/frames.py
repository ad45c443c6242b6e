"""The control line's bytes: frames of limited length, and the JSON object that a body holds. Streams are passed in.

Must not know who speaks (proof.py) nor what is said (orders.py). Bodies are JSON, never pickle.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

from heliograph.model.errors import Disconnected, ProtocolError

FRAME_LIMIT = 8 << 20


class Readable(Protocol):
    """What frames are read from: an asyncio.StreamReader, or what seals one (line_tls.py)."""

    async def readexactly(self, size: int, /) -> bytes: ...


def framed(body: bytes) -> bytes:
    if len(body) > FRAME_LIMIT:
        raise ProtocolError(f"a control frame of {len(body)} bytes is over the limit of {FRAME_LIMIT}")
    return len(body).to_bytes(4, "big") + body


async def read(reader: Readable, limit: int = FRAME_LIMIT) -> bytes | None:
    """The body of the next frame; None at the end of the line."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > limit:
            raise ProtocolError(f"a control frame of {size} bytes is over the limit of {limit}")
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except OSError as problem:
        raise Disconnected(f"the network was cut: {problem}") from problem


def json_object(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise ProtocolError("a control frame that is not JSON") from None  # the error holds the whole body
    if not isinstance(given, dict):
        raise ProtocolError("a control frame that is not an object")
    return given
