"""Target clusters that hold events, played: their logs in memory, and what goes wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from heliograph.cluster.record_log import LogRecord
from heliograph.controller.event_writer import Run
from heliograph.model.errors import BrokerRefused, HeliographError
from heliograph.model.events import Event
from heliograph.model.ledger import EVENTS_TOPIC
from heliograph.model.occurrence import Occurrence
from heliograph.operations.event_aim import EventAim
from heliograph.operations.recorded_event import RecordedEvent
from heliograph.wire.error_codes import ErrorCode

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAY_BEFORE = NOW - timedelta(days=1)
RUN = Run(host="mirror-1", pid=77)


def occurrence(message: str, minutes: float = 0.0, **fields: Any) -> Occurrence:
    """So many minutes before now; of a link's own unless it is said to be of none."""
    defaults: dict[str, Any] = {"code": Event.LANE_UP, "link": "sf-to-nyc"}
    return Occurrence(at=NOW - timedelta(minutes=minutes), message=message, **{**defaults, **fields})


def recorded(message: str, minutes: float = 0.0, target: str = "nyc", **fields: Any) -> RecordedEvent:
    """The same, as it is read."""
    told = occurrence(message, minutes, **fields)
    return RecordedEvent(
        at=told.at,
        code=str(told.code),
        message=message,
        target=target,
        severity=str(told.severity),
        hint=told.hint,
        host=RUN.host,
        pid=RUN.pid,
        **{"link": told.link, **told.where},
    )


class PlayedLog:
    """A log of one partition. `fails`: what the next reads end with. `page`: how many records an answer holds."""

    def __init__(self, start: int = 0, page: int = 3) -> None:
        self.first = start
        self.page = page
        self.records: list[LogRecord] = []
        self.times_ms: list[int] = []
        self.fails: list[HeliographError | None] = []
        self.looks = 0

    def write(self, *told: Occurrence | bytes, at: datetime | None = None) -> None:
        """`at`: when they are appended, if that is not when they happened."""
        for each in told:
            value = RUN.encode(each)[1] if isinstance(each, Occurrence) else each
            written = at or (each.at if isinstance(each, Occurrence) else NOW)
            self.records.append(LogRecord(self.next_offset, None, value))
            self.times_ms.append(int(written.timestamp() * 1000))

    @property
    def next_offset(self) -> int:
        return self.first + len(self.records)

    def delete_before(self, offset: int) -> None:
        count = offset - self.first
        self.records, self.times_ms, self.first = self.records[count:], self.times_ms[count:], offset

    def truncate(self, end: int) -> None:
        count = end - self.first
        self.records, self.times_ms = self.records[:count], self.times_ms[:count]

    async def start(self) -> int:
        await asyncio.sleep(0)
        return self.first

    async def end(self) -> int:
        await asyncio.sleep(0)
        return self.next_offset

    async def first_since(self, time_ms: int) -> int | None:
        await asyncio.sleep(0)
        return next((self.first + n for n, at in enumerate(self.times_ms) if at >= time_ms), None)

    async def read(self, from_offset: int, *, wait_ms: int = 0) -> tuple[list[LogRecord], int]:
        await asyncio.sleep(0)
        if self.fails and (fate := self.fails.pop(0)) is not None:
            raise fate
        if not self.first <= from_offset <= self.next_offset:
            raise refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        if from_offset == self.next_offset and wait_ms:
            await asyncio.sleep(0.002)
        at = from_offset - self.first
        page = self.records[at : at + self.page]
        return page, from_offset + len(page)

    async def look_again(self) -> None:
        await asyncio.sleep(0)
        self.looks += 1


class PlayedCluster:
    """`log` None: the topic is not there. `connects`, `finds`: what the next ones end with."""

    def __init__(self, name: str = "nyc", *told: Occurrence, cluster_id: str | None = None) -> None:
        self.name = name
        self.grant = f"kafka-acls.sh --grant-on-{name}"
        self.cluster_id = cluster_id or f"id-of-{name}"
        self.topic_identity = "first"
        self.log: PlayedLog | None = PlayedLog()
        self.log.write(*told)
        self.connects: list[HeliographError | None] = []
        self.finds: list[HeliographError | None] = []
        self.closed = False

    @property
    def there(self) -> PlayedLog:
        assert self.log is not None
        return self.log

    def delete_topic(self) -> None:
        self.there.fails = [refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        self.log = None

    def make_topic(self, *told: Occurrence, identity: str = "second") -> None:
        self.log, self.topic_identity = PlayedLog(), identity
        self.log.write(*told)

    async def connect(self) -> None:
        await _meet(self.connects)

    async def find(self) -> PlayedLog | None:
        await _meet(self.finds)
        return self.log

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


async def _meet(fates: list[HeliographError | None]) -> None:
    await asyncio.sleep(0)
    if fates and (fate := fates.pop(0)) is not None:
        raise fate


def refused(code: ErrorCode) -> BrokerRefused:
    return BrokerRefused(f"read of {EVENTS_TOPIC}: {code.name}", code=code)


def aim(**changed: Any) -> EventAim:
    return replace(EventAim(links=(), since=DAY_BEFORE), **changed)


def messages(events: Sequence[RecordedEvent]) -> list[str]:
    return [event.message for event in events]
