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
# A log that was deleted and made again, or whose first records are gone, is read from its start.
_BEGIN_ANEW = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Log(Protocol):
    """cluster.RecordLog is the real one."""

    async def append(self, records: Sequence[Pair]) -> None: ...

    async def start(self) -> int: ...

    async def end(self) -> int: ...

    async def read(self, from_offset: int, *, wait_ms: int = 0) -> tuple[list[LogRecord], int]: ...


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
        """All that is there now."""
        if self._next is None:
            self._next = await self._log.start()
        end = await self._log.end()
        if end < self._next:  # another log of that name
            self._next = await self._log.start()
        while self._next < end:
            await self._read()

    async def wait(self, wait_ms: int = FOLLOW_WAIT_MS) -> None:
        """What comes next, if anything does in this time."""
        if self._next is None:
            self._next = await self._log.start()
        await self._read(wait_ms)

    async def _read(self, wait_ms: int = 0) -> None:
        assert self._next is not None
        try:
            records, self._next = await self._log.read(self._next, wait_ms=wait_ms)
        except BrokerRefused as refused:
            if refused.code in _BEGIN_ANEW:
                self._next = None
            raise
        for record in records:
            self._take(record)


class Ledger:
    """`open` before anything else."""

    def __init__(self, logs: Logs) -> None:
        self.state = LedgerState()
        self.commands = CommandState()
        self._logs = logs
        self._rows: tuple[Log, Follower] | None = None
        self._wishes: tuple[Log, Follower] | None = None
        self._on_command: Callable[[Command], None] = lambda _command: None

    async def open(self) -> None:
        """Make what is missing and read all that is there."""
        if self._rows is None:
            log = await self._logs.open(LEDGER_TOPIC)
            self._rows = log, Follower(log, lambda record: self._take_row(record))
        if self._wishes is None:
            log = await self._logs.open(COMMANDS_TOPIC)
            self._wishes = log, Follower(log, lambda record: self._take_command(record))
        await self.catch_up()

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

    async def follow(self, on_command: Callable[[Command], None]) -> NoReturn:
        """Hand over every command that comes from now on; for ever. A cluster that is away is waited for."""
        self._on_command = on_command
        assert self._wishes is not None, "a ledger is opened before it is followed"
        while True:
            try:
                await self._wishes[1].wait()
            except (RequestFailed, ProtocolError):
                await asyncio.sleep(AGAIN_S)

    def _take_row(self, record: LogRecord) -> None:
        self.state.take(record.key, record.value)

    def _take_command(self, record: LogRecord) -> None:
        command = self.commands.take(record.key, record.value)
        if command is not None:
            self._on_command(command)
