"""A source of batches: its fetches ask for what the link's policy says."""

from __future__ import annotations

from typing import Any, cast

import pytest

from heliograph.cluster.batch_source import BatchSource
from heliograph.cluster.client import ClusterClient
from heliograph.model.errors import Disconnected
from heliograph.model.policy import Isolation
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.fetch import FetchWant
from heliograph.wire.fetch_request import FetchAsk

from .peers import properties_for

VERSION = 4  # the oldest that we speak
ISOLATION_AT = 4 + 4 + 4 + 4  # behind replica id, wait, least and most bytes


class Recorder:
    """A connection, and the client that has it: notes what is asked, and answers nothing."""

    address = "recorder"
    versions = {int(ApiKey.FETCH): (VERSION, VERSION)}  # noqa: RUF012 - never changed
    properties = properties_for(1)

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def connection(self, _node: int, _purpose: str) -> Recorder:
        return self

    async def request(self, _key: int, _version: int, parts: list[bytes], **_: Any) -> memoryview:
        self.bodies.append(b"".join(parts))
        raise Disconnected("only a recorder")


@pytest.mark.parametrize(
    ("isolation", "wire"), [(Isolation.READ_COMMITTED, 1), (Isolation.READ_UNCOMMITTED, 0)]
)
async def test_a_fetch_carries_the_isolation_it_was_asked_with(isolation: Isolation, wire: int) -> None:
    recorder = Recorder()
    source = BatchSource(cast(ClusterClient, recorder), "sf-to-nyc")
    want = FetchWant("orders", 0, 0, 1000, -1, -1)
    with pytest.raises(Disconnected):
        await source.fetch(
            1, "calm", FetchAsk([want], []), max_bytes=1000, max_wait_ms=0, isolation=isolation
        )
    (body,) = recorder.bodies
    assert body[ISOLATION_AT] == wire
