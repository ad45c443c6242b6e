"""What is written down on one target cluster, as this run knows it: rows, commands and events (docs/LEDGER.md).

    __heliograph_ledger     rows, by active drivers     read when a link is prepared, written as things happen
    __heliograph_commands   what operators want         followed for as long as the run lasts
    __heliograph_events     what happened               written

Owns reading and writing; what rows mean is model/ledger.py's and recorded.py's, what commands lead to commands.py's. A
ledger that is lost or deleted costs comfort, never data: the target's logs are the truth (P3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from heliograph.cluster.record_log import LogRecord, Pair
from heliograph.model.command import Command, CommandState, encode_command
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.ledger import COMMANDS_TOPIC, LEDGER_TOPIC, LedgerState, Row, encode_row
from heliograph.wire.error_codes import ErrorCode

FOLLOW_WAIT_MS = 500
AGAIN_S = 1.0
FOLLOW_AWAY_S = 15.0  # a leader is elected in less
ROWS_LOOK_S = 10.0
IDLE_S = 0.1
IDLE_MOST = 50  # reads without a record before the end of the log; a quota empties answers for a while
# A log that was deleted and made again, or whose first records are gone, is read from its start.
_BEGIN_ANEW = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
# A topic that was deleted has no leader either: whether it is there is looked at again.
_OPEN_ANEW = _BEGIN_ANEW | {ErrorCode.LEADER_NOT_AVAILABLE}
# Nothing that another try could mend: the run goes on without a ledger.
NEVER = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_CONFIG,
    }
)


class Log(Protocol):
    """cluster.RecordLog is the real one."""

    async def append(self, records: Sequence[Pair]) -> None: ...

    async def start(self) -> int: ...

    async def end(self) -> int: ...

    async def read(self, from_offset: int, *, wait_ms: int = 0) -> tuple[list[LogRecord], int]: ...

    async def look_again(self) -> None:
        """Its leader may have moved."""


class Logs(Protocol):
    """The logs of one cluster; cluster.OwnTopics is the real one."""

    async def open(self, topic: str) -> Log:
        """Made if it is missing."""

    async def find(self, topic: str) -> Log | None:
        """None: there is no such topic."""


class Follower:
    """Reads one log from its start on, and hands each record over."""

    def __init__(self, log: Log, take: Callable[[LogRecord], None]) -> None:
        self._log = log
        self._take = take
        self._next: int | None = None

    async def catch_up(self) -> None:
        """All that is there now. Somebody may `wait` at the same time."""
        end = await self._log.end()
        if self._next is not None and end < self._next:  # another log of that name
            self._next = None
        idle = 0
        while (at := await self._from()) < end:
            await self._read(at)
            if self._next != at:
                idle = 0
                continue
            idle += 1
            if idle >= IDLE_MOST:
                raise RequestFailed(f"its records from {at} on do not come, and it ends at {end}")
            await asyncio.sleep(IDLE_S)
            end = min(end, await self._log.end())  # it may be shorter by now

    async def wait(self, wait_ms: int = FOLLOW_WAIT_MS) -> None:
        """What comes next, if anything does in this time."""
        await self._read(await self._from(), wait_ms)

    async def _from(self) -> int:
        if self._next is None:
            start = await self._log.start()
            if self._next is None:
                self._next = start
        return self._next

    async def _read(self, at: int, wait_ms: int = 0) -> None:
        try:
            records, following = await self._log.read(at, wait_ms=wait_ms)
        except BrokerRefused as refused:
            if refused.code in _BEGIN_ANEW:
                self._next = None
            raise
        if self._next != at:
            return  # another one has read them meanwhile; what is older must not be taken after what is newer
        for record in records:
            self._next = record.offset + 1  # one that cannot be taken is not read for ever
            self._take(record)
        self._next = following


class Ledger:
    """`open` before anything else. `on_unread`: there is a command that cannot be read."""

    def __init__(self, logs: Logs, on_unread: Callable[[], None] = lambda: None) -> None:
        self.state = LedgerState()
        self.commands = CommandState()
        self._logs = logs
        self._on_unread = on_unread
        self._rows: tuple[Log, Follower] | None = None
        self._wishes: tuple[Log, Follower] | None = None
        self._on_command: Callable[[Command], None] = lambda _command: None

    async def open(self) -> None:
        """Make what is missing, also what was deleted since, and read all that is there."""
        if self._rows is None or not await _is_there(self._rows[1]):
            log = await self._logs.open(LEDGER_TOPIC)
            self._rows = log, Follower(log, lambda record: self._take_row(record))
            await self._rows[1].catch_up()
        if self._wishes is None or not await _is_there(self._wishes[1]):
            log = await self._logs.open(COMMANDS_TOPIC)
            self._wishes = log, Follower(log, lambda record: self._take_command(record))
            await self._wishes[1].catch_up()

    async def look(self) -> bool:
        """Read what is there and make nothing. False: there is no ledger."""
        rows, wishes = await self._logs.find(LEDGER_TOPIC), await self._logs.find(COMMANDS_TOPIC)
        if rows is not None and self._rows is None:
            self._rows = rows, Follower(rows, lambda record: self._take_row(record))
        if wishes is not None and self._wishes is None:
            self._wishes = wishes, Follower(wishes, lambda record: self._take_command(record))
        await self.catch_up()
        return self._rows is not None

    async def catch_up(self) -> None:
        for opened in (self._rows, self._wishes):
            if opened is not None:
                await opened[1].catch_up()

    async def write(self, rows: Sequence[Row]) -> None:
        """Durable on return."""
        if not rows:
            return
        assert self._rows is not None, "a ledger is opened before it is written"
        await self._rows[0].append([encode_row(row) for row in rows])
        for row in rows:
            self.state.put(row)

    async def command(self, commands: Sequence[Command]) -> None:
        """What an operator wants; durable on return."""
        assert self._wishes is not None, "a ledger is opened before it is written"
        await self._wishes[0].append([encode_command(each) for each in commands])

    async def follow(
        self, on_command: Callable[[Command], None], on_away: Callable[[RequestFailed | ProtocolError], None]
    ) -> NoReturn:
        """Hand over every command that comes from now on; for ever. A cluster that is away is waited for; `on_away` is
        called once it has been away for FOLLOW_AWAY_S, and again after it was back. Called again after a bug has ended
        it, it goes on behind the command that was handed over."""
        self._on_command = on_command
        assert self._wishes is not None, "a ledger is opened before it is followed"
        assert self._rows is not None
        loop = asyncio.get_running_loop()
        here_at, look_at, told = loop.time(), 0.0, False
        while True:
            try:
                await self._wishes[1].wait()
                if loop.time() >= look_at:
                    await self._rows[0].end()  # nobody else would see that it was deleted
                    look_at = loop.time() + ROWS_LOOK_S
                here_at, told = loop.time(), False
            except (RequestFailed, ProtocolError) as problem:
                look_at = 0.0
                if not told and loop.time() - here_at >= FOLLOW_AWAY_S:
                    told = True
                    on_away(problem)
                await asyncio.sleep(AGAIN_S)
                await self._wishes[0].look_again()

    def _take_row(self, record: LogRecord) -> None:
        self.state.take(record.key, record.value)

    def _take_command(self, record: LogRecord) -> None:
        unread = self.commands.unread
        command = self.commands.take(record.key, record.value)
        if command is not None:
            self._on_command(command)
        if self.commands.unread > unread:
            self._on_unread()


async def _is_there(follower: Follower) -> bool:
    """Caught up with; False: its topic is gone, or may be."""
    try:
        await follower.catch_up()
    except BrokerRefused as refused:
        if refused.code in _OPEN_ANEW:
            return False
        raise
    return True
