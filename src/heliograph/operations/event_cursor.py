"""Where a reader is in the events topic of one target cluster: each event is read once, and none is passed over.

    begin ─▶ read ... until `past_is_read` ─▶ read ... for ever

    the topic is not there, or no more             it is looked for at each read
    it was made, or made anew                      it is read from its first record on
    its log begins later, or no longer reaches     what is missing is told, and reading goes on
    as far as it was read

Owns the place. Must not know how long to wait for a cluster that is away, nor in which order events are shown: whatever
fails leaves the place as it was, and may be tried again. Reads only: the topic is never made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from heliograph.cluster.record_log import LogRecord
from heliograph.model.errors import BrokerRefused
from heliograph.model.ledger import EVENTS_TOPIC, Unreadable
from heliograph.operations.event_aim import EventAim
from heliograph.operations.event_clusters import EventCluster, EventLog
from heliograph.operations.recorded_event import RecordedEvent, read_event
from heliograph.wire.error_codes import ErrorCode

# An event is written after it has happened; but the clock may be set back between, and where the topic has log append
# time it is the broker's. What was written up to so long before is looked at, too.
CLOCKS_DIFFER_MS = 60_000
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

Tell = Callable[[str], None]


class EventCursor:
    def __init__(self, cluster: EventCluster, aim: EventAim, tell: Tell) -> None:
        self.cluster = cluster
        self.has_begun = False
        self.next_offset = 0
        self._aim = aim
        self._tell = tell
        self._log: EventLog | None = None
        self._identity: str | None = None  # of the topic in which `next_offset` is
        self._past_end = 0  # up to here it was there when this began
        self._told_missing = False
        self._told_unread = False

    @property
    def is_missing(self) -> bool:
        """There is no such topic."""
        return self._log is None

    @property
    def is_lost(self) -> bool:
        """There was such a topic."""
        return self._log is None and self._identity is not None

    @property
    def past_is_read(self) -> bool:
        return self.is_missing or self.next_offset >= self._past_end

    async def begin(self) -> None:
        """Find what there is to be read."""
        await self.cluster.connect()
        await self._find()
        self.has_begun = True

    async def read(self, *, wait_ms: int) -> list[RecordedEvent]:
        """The next ones that are meant, some of them; none where nothing comes in this time."""
        if self._log is None or self.cluster.topic_identity != self._identity:
            await self._find()
        if self._log is None:
            return []
        try:
            records, following = await self._log.read(self.next_offset, wait_ms=wait_ms)
        except BrokerRefused as refused:
            if refused.code in _GONE:
                self._log = None
            if refused.code != ErrorCode.OFFSET_OUT_OF_RANGE or not await self._moved():
                raise
            return []
        events = list(self._events(records))
        self.next_offset = following
        return events

    async def look_again(self) -> None:
        """The log's leader may have moved."""
        if self._log is not None:
            await self._log.look_again()

    # -- the place

    async def _find(self) -> None:
        log = await self.cluster.find()
        if log is None:
            self._log = None
            self._miss()
            return
        identity = self.cluster.topic_identity
        if identity != self._identity:
            self.next_offset, self._past_end = await self._first_place(log)
        self._log, self._identity, self._told_missing = log, identity, False

    async def _first_place(self, log: EventLog) -> tuple[int, int]:
        """Where to begin in a topic, and up to where it holds the past."""
        if self.has_begun:  # it was made meanwhile: all that it holds is new
            start = await log.start()
            return start, start
        end = await log.end()  # asked first: what comes between is not passed over
        since_ms = int(self._aim.since.timestamp() * 1000) - CLOCKS_DIFFER_MS
        first = await log.first_since(max(since_ms, 0))
        return (end if first is None else first), end

    async def _moved(self) -> bool:
        """The log does not hold the next offset. Whether there is another place to go on from."""
        before = self._identity
        await self._find()
        if self._log is None or self._identity != before:
            return True
        start, end = await self._log.start(), await self._log.end()
        if start <= self.next_offset <= end:
            return False
        if self.next_offset < start:
            lost = f"{start - self.next_offset} events were deleted before they were read"
        else:
            lost = f"the log ends at offset {end}, and was read up to {self.next_offset}: the cluster has lost events"
        self._tell(f"warning: cluster {self.cluster.name!r}, topic {EVENTS_TOPIC}: {lost}")
        self.next_offset = start if self.next_offset < start else end
        self._past_end = min(self._past_end, end)
        return True

    def _miss(self) -> None:
        if not self._told_missing:
            self._told_missing = True
            words = "is not there any more" if self.is_lost else "is not there: no run has told anything yet"
            self._tell(f"cluster {self.cluster.name!r}: topic {EVENTS_TOPIC} {words}")

    # -- what is there

    def _events(self, records: Iterable[LogRecord]) -> Iterator[RecordedEvent]:
        for record in records:
            event = self._read_event(record)
            if event is None or not self._aim.means(event):
                continue
            # What comes while we follow is shown, however late it is written.
            if event.at >= self._aim.since or record.offset >= self._past_end:
                yield event

    def _read_event(self, record: LogRecord) -> RecordedEvent | None:
        try:
            return read_event(record.value, self.cluster.name)
        except Unreadable as problem:
            if not self._told_unread:
                self._told_unread = True
                self._tell(
                    f"warning: cluster {self.cluster.name!r}, topic {EVENTS_TOPIC}: the record at offset"
                    f" {record.offset} {problem}; it is left out, and so is every other like it"
                )
            return None
