"""Where requests can be sent: all that their senders need to know of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from heliograph.cluster.conversation import Buffer
from heliograph.cluster.gate import Permit


class Line(Protocol):
    """A connection, or one that is reserved."""

    @property
    def address(self) -> str: ...

    @property
    def versions(self) -> dict[int, tuple[int, int]]: ...

    def request(
        self,
        api_key: int,
        version: int,
        buffers: Sequence[Buffer],
        *,
        flexible: bool,
        timeout_ms: int,
        permit: Permit | None = None,
    ) -> asyncio.Future[memoryview]: ...
