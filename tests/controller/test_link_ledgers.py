"""Ledgers that are away, refuse, are deleted, or hold what cannot be read: a run goes on, and tells (in memory)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.record_log import LogRecord
from heliograph.controller import ledger as ledger_module
from heliograph.controller import link_ledger as link_ledger_module
from heliograph.controller import link_ledgers as link_ledgers_module
from heliograph.controller.clusters import Clusters
from heliograph.controller.ledger import Follower, Ledger
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.link_ledgers import AWAY_LIMIT_S, LinkLedgers
from heliograph.model.clock import time_of_day
from heliograph.model.command import Command, Subject, Wish, encode_command
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, Disconnected, RequestFailed
from heliograph.model.events import Event
from heliograph.model.ledger import (
    COMMANDS_TOPIC,
    LEDGER_TOPIC,
    WHOLE_TOPIC,
    LedgerState,
    RowKind,
    encode_row,
)
from heliograph.model.outbox import Outbox
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .memory_logs import MemoryLog, MemoryLogs

ORDERS = TopicPartition("orders", 0)
NO_LEADER = BrokerRefused("no leader", code=ErrorCode.LEADER_NOT_AVAILABLE)
GONE = BrokerRefused("no such topic", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
DENIED = BrokerRefused("not allowed", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def command(number: int) -> Command:
    subject = Subject(source_cluster_id="sf-id", target_topic="orders", partition=0)
    return Command(id=f"{number}", wish=Wish.PAUSE, subject=subject, at=time_of_day(), author="ops")


class Run:
    def __init__(self) -> None:
        self.logs = MemoryLogs()
        self.now = 0.0
        self.outbox = Outbox()
        self.heard: list[str] = []
        self.fails_at: str | None = None
        clusters = SimpleNamespace(
            own_topics=lambda _link: self.logs,
            link=lambda _link: SimpleNamespace(target="nyc"),
            target_topic_id=lambda _link, _topic: "id",
        )
        ids = {"a": ("sf-id", "nyc-id"), "b": ("lon-id", "nyc-id")}
        self.ledgers = LinkLedgers(
            cast(Clusters, clusters), ids, self.outbox, self.hear, clock=lambda: self.now
        )

    def hear(self, heard: Command) -> None:
        if heard.id == self.fails_at:
            raise RuntimeError("a bug")
        self.heard.append(heard.id)

    def told(self, event: Event) -> list[str]:
        return [each.message for each in self.outbox.last if each.code is event]

    async def opened(self) -> LinkLedger:
        ledger = await self.ledgers.open("a")
        assert ledger is not None
        return ledger

    @property
    def rows(self) -> MemoryLog:
        return self.logs.logs[LEDGER_TOPIC]


def state_of(log: MemoryLog) -> LedgerState:
    state = LedgerState()
    for record in log.records:
        state.take(record.key, record.value)
    return state


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - whatever it looks at
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ledger_module, link_ledger_module, link_ledgers_module):
        monkeypatch.setattr(module, "AGAIN_S", 0.01)
    monkeypatch.setattr(ledger_module, "IDLE_S", 0.0)


# -- opening


async def test_a_ledger_that_is_away_is_waited_for_and_then_done_without() -> None:
    run = Run()
    run.logs.refuses = NO_LEADER
    with pytest.raises(ClusterUnreachable):
        await run.ledgers.open("a")
    run.now = AWAY_LIMIT_S - 1
    with pytest.raises(ClusterUnreachable):
        await run.ledgers.open("a")
    assert run.told(Event.NO_LEDGER) == []

    run.now = AWAY_LIMIT_S
    assert await run.ledgers.open("a") is None
    assert await run.ledgers.open("a") is None
    (told,) = run.told(Event.NO_LEDGER)
    assert "no leader" in told

    run.logs.refuses = None
    assert await run.ledgers.open("a") is not None
    await run.ledgers.aclose()


async def test_a_ledger_that_refuses_for_good_is_done_without_at_once() -> None:
    run = Run()
    run.logs.refuses = DENIED
    assert await run.ledgers.open("a") is None
    assert await run.ledgers.open("b") is None
    assert len(run.told(Event.NO_LEDGER)) == 1


async def test_a_link_that_was_ready_waits_anew() -> None:
    run = Run()
    await run.opened()
    run.ledgers.ready("a")
    run.now = 10 * AWAY_LIMIT_S
    run.rows.fails = [Disconnected("gone")]
    with pytest.raises(ClusterUnreachable):
        await run.ledgers.open("a")
    await run.ledgers.aclose()


@pytest.mark.parametrize("refused", [GONE, NO_LEADER])
async def test_a_ledger_that_was_deleted_is_made_again(refused: BrokerRefused) -> None:
    run = Run()
    ledger = await run.opened()
    deleted = run.logs.logs.pop(LEDGER_TOPIC)
    deleted.fails = [refused] * 100
    assert await run.ledgers.open("a") is ledger
    await ledger.write([ledger.of_gaps(ORDERS)])
    assert len(run.rows.records) == 1
    await run.ledgers.aclose()


# -- reading


async def test_a_log_that_got_shorter_ends_a_reader_s_wait() -> None:
    class Shorter(MemoryLog):
        ends = 5

        async def end(self) -> int:
            self.ends -= 1
            return max(self.ends, 0)

    async with asyncio.timeout(5):
        await Follower(Shorter(), lambda _record: None).catch_up()


async def test_records_that_do_not_come_are_not_waited_for_for_ever() -> None:
    class Silent(MemoryLog):
        async def end(self) -> int:
            return 7

    async with asyncio.timeout(5):
        with pytest.raises(RequestFailed):
            await Follower(Silent(), lambda _record: None).catch_up()


async def test_two_readers_take_nothing_old_after_what_is_new() -> None:
    log = MemoryLog()
    await log.append([(b"a", b"1")])
    taken: list[LogRecord] = []
    follower = Follower(log, taken.append)
    await asyncio.gather(follower.wait(), follower.catch_up())
    await log.append([(b"a", b"2")])
    await asyncio.gather(follower.wait(), follower.catch_up())
    assert [record.value for record in taken] == [b"1", b"2"]


async def test_commands_that_cannot_be_read_are_told_once() -> None:
    run = Run()
    key, _ = encode_command(command(1))
    log = await run.logs.open(COMMANDS_TOPIC)
    await log.append([(key, b"\x02{}"), (b"\x01nonsense", b"\x01{}")])
    await run.opened()
    await log.append([(b"\x01", b""), encode_command(command(2))])
    await until(lambda: run.heard)
    assert run.heard == ["2"]
    assert len(run.told(Event.COMMAND)) == 1
    await run.ledgers.aclose()


@pytest.mark.parametrize("topic", [LEDGER_TOPIC, COMMANDS_TOPIC])
async def test_a_ledger_that_is_deleted_under_a_run_is_told_once(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AGAIN_S", "FOLLOW_AWAY_S", "ROWS_LOOK_S"):
        monkeypatch.setattr(ledger_module, name, 0.01)
    run = Run()
    await run.opened()
    log = run.logs.logs[topic]
    log.fails = [GONE] * 20
    await until(lambda: not log.fails)
    (told,) = run.told(Event.NO_LEDGER)
    assert "no such topic. Commands are not heard" in told
    assert run.logs.logs[COMMANDS_TOPIC].looks >= 10
    await run.ledgers.aclose()


async def test_a_bug_behind_a_command_is_reported_and_the_next_are_heard() -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    run = Run()
    run.fails_at = "1"
    ledger = await run.opened()
    await asyncio.sleep(0.02)
    await ledger.ledger.command([command(1), command(2)])
    await until(lambda: run.heard)
    assert run.heard == ["2"]
    assert [str(context["exception"]) for context in reported] == ["a bug"]
    await run.ledgers.aclose()


# -- writing


async def test_rows_that_wait_are_told_once_and_written_later() -> None:
    run = Run()
    ledger = await run.opened()
    run.rows.fails = [Disconnected("away")] * 3
    ledger.record([ledger.of_gaps(ORDERS)])
    await ledger.flush(5)
    assert len(run.told(Event.NO_LEDGER)) == 1
    assert len(run.rows.records) == 1
    await run.ledgers.aclose()


async def test_rows_that_are_refused_for_good_are_dropped_and_told() -> None:
    run = Run()
    ledger = await run.opened()
    run.rows.fails = [DENIED]
    ledger.record([ledger.of_gaps(ORDERS)])
    await ledger.flush(5)
    (told,) = run.told(Event.NO_LEDGER)
    assert "1 rows are dropped: not allowed" in told.replace(")", "")
    assert run.rows.records == []
    await run.ledgers.aclose()


async def test_a_write_waits_for_what_is_recorded_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_ledger_module, "APPEND_LIMIT_S", 0.05)
    run = Run()
    ledger = await run.opened()
    run.rows.fails = [Disconnected("away")] * 10_000
    ledger.record([ledger.of_gaps(ORDERS)])
    async with asyncio.timeout(5):
        with pytest.raises(RequestFailed):
            await ledger.write([ledger.of_gaps(TopicPartition("orders", 1))])
        with pytest.raises(RequestFailed):
            await ledger.take_over(["orders"], 3)
    run.rows.fails.clear()
    await ledger.flush(5)
    assert len(run.rows.records) == 1
    await run.ledgers.aclose()


async def test_what_was_recorded_before_a_new_term_counts_under_it() -> None:
    run = Run()
    ledger = await run.opened()
    await ledger.take_over(["orders"], 3)
    await ledger.write([ledger.of_topic("orders", "orders", "source id")])
    ledger.record([ledger.of_gaps(ORDERS)])
    made_before = ledger.of_gaps(TopicPartition("orders", 1))
    await ledger.take_over(["orders"], 4)
    ledger.record([made_before])
    await ledger.flush(5)

    state = state_of(run.rows)
    for partition in (0, 1):
        name = ledger.recorded.name(TopicPartition("orders", partition), RowKind.GAPS)
        assert state.fields(name) is not None
        assert state.term(name) == 4
    await run.ledgers.aclose()


async def test_only_the_last_word_waits() -> None:
    run = Run()
    ledger = await run.opened()
    where = TopicPartition("orders", WHOLE_TOPIC)
    rows = [ledger.row(where, RowKind.GAPS, {"n": n}) for n in range(1000)]
    ledger.record(rows)
    await ledger.flush(5)
    assert [(each.key, each.value) for each in run.rows.records] == [encode_row(rows[-1])]
    await run.ledgers.aclose()


async def test_a_ledger_that_nobody_tells_of_unread_commands_is_read_all_the_same() -> None:
    logs = MemoryLogs()
    await (await logs.open(COMMANDS_TOPIC)).append([(b"\x05", b"\x05")])
    ledger = Ledger(logs)
    await ledger.open()
    assert ledger.commands.unread == 1
