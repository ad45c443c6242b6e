"""What a run tells is written to its target clusters, whatever they do; and the mirror never waits for it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.record_log import LogRecord, Pair
from heliograph.controller import event_writer
from heliograph.controller.event_queue import EventQueue, LeftOut
from heliograph.controller.event_writer import EventsTarget, EventWriter, events_targets
from heliograph.controller.ledger import Log
from heliograph.model.errors import BrokerRefused, Disconnected, PartitionStop
from heliograph.model.events import Event
from heliograph.model.ledger import EVENTS_TOPIC, VERSION
from heliograph.model.link import Link
from heliograph.model.occurrence import Occurrence, decode_occurrence, of_stop
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SOON_S = 5.0


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_writer, "PAUSE_S", 0.005)
    monkeypatch.setattr(event_writer, "AGAIN_S", 0.005)
    monkeypatch.setattr(event_writer, "AGAIN_LIMIT_S", 0.01)
    monkeypatch.setattr(event_writer, "AGAIN_AT_END_S", 0.005)


class PlayedCluster:
    """Its logs. `opens` and `appends`: what the next ones fail with, None for one that succeeds; `hangs`: none ever
    ends."""

    def __init__(self) -> None:
        self.opens: list[Exception | None] = []
        self.appends: list[Exception | None] = []
        self.hangs = False
        self.opened: list[str] = []
        self.tried: list[Sequence[Pair]] = []
        self.records: list[Pair] = []

    async def open(self, topic: str) -> Log:
        self.opened.append(topic)
        await self._meet(self.opens)
        return self

    async def find(self, topic: str) -> Log | None:
        raise AssertionError(f"nobody reads {topic} here")

    async def append(self, records: Sequence[Pair]) -> None:
        self.tried.append(records)
        await self._meet(self.appends)
        self.records += records

    async def _meet(self, fates: list[Exception | None]) -> None:
        await asyncio.sleep(3600 if self.hangs else 0)
        if fates and (fate := fates.pop(0)) is not None:
            raise fate

    async def start(self) -> int:
        return 0

    async def end(self) -> int:
        return len(self.records)

    async def read(self, from_offset: int, *, wait_ms: int = 0) -> tuple[list[LogRecord], int]:
        raise AssertionError(f"nobody reads from {from_offset} here, or waits {wait_ms} ms")

    async def look_again(self) -> None:
        raise AssertionError("nobody reads here")

    @property
    def documents(self) -> list[dict[str, Any]]:
        assert all(value is not None and value[0] == VERSION for _, value in self.records)
        return [json.loads((value or b"")[1:]) for _, value in self.records]

    @property
    def messages(self) -> list[str]:
        return [document["message"] for document in self.documents]


class Story:
    """Two target clusters: two links lead to the first, one to the second."""

    def __init__(self) -> None:
        self.nyc, self.tokyo = PlayedCluster(), PlayedCluster()
        self.outbox = Outbox()
        targets = [
            EventsTarget(
                name="nyc",
                cluster_id="nyc-id",
                links=frozenset({"sf-nyc", "la-nyc"}),
                logs=self.nyc,
                grant="grant it",
            ),
            EventsTarget(
                name="tokyo",
                cluster_id="tokyo-id",
                links=frozenset({"sf-tokyo"}),
                logs=self.tokyo,
                grant="grant it",
            ),
        ]
        self.writer = EventWriter(targets, self.outbox, host="here", pid=77)

    def tell(self, *messages: str, link: str | None = "sf-nyc") -> None:
        for message in messages:
            self.outbox.tell(Event.LANE_UP, message, link=link)

    def told(self, code: Event) -> list[Occurrence]:
        return [each for each in self.outbox.last if each.code is code]


@asynccontextmanager
async def begun() -> AsyncIterator[Story]:
    story = Story()
    story.writer.start()
    story.outbox.attach(story.writer)
    try:
        yield story
    finally:
        await story.writer.aclose(0.1)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not true():  # noqa: ASYNC110 - a list is no event
            await asyncio.sleep(0.002)


def refused(code: ErrorCode) -> BrokerRefused:
    return BrokerRefused(f"the broker says {code.name}", code=code)


# -- what is written, and where


async def test_what_is_about_a_link_goes_to_its_target_and_what_is_about_the_run_to_all() -> None:
    async with begun() as story:
        story.tell("one", link="sf-nyc")
        story.tell("two", link="la-nyc")
        story.tell("three", link="sf-tokyo")
        story.tell("four", link=None)
        await until(lambda: len(story.nyc.records) == 3 and len(story.tokyo.records) == 2)
    assert story.nyc.messages == ["one", "two", "four"]
    assert story.tokyo.messages == ["three", "four"]
    assert set(story.nyc.opened) == {EVENTS_TOPIC}


async def test_a_link_that_comes_later_has_its_events_at_its_target_which_may_be_a_new_one() -> None:
    async with begun() as story:
        story.tell("early", link="sf-lax")
        lax = PlayedCluster()
        story.writer.add(
            EventsTarget(name="lax", cluster_id="lax-id", links=frozenset({"sf-lax"}), logs=lax, grant="")
        )
        story.writer.add(
            EventsTarget(name="nyc", cluster_id="nyc-id", links=frozenset({"ldn-nyc"}), logs=lax, grant="")
        )
        story.tell("one", link="sf-lax")
        story.tell("two", link="ldn-nyc")
        story.tell("three", link="sf-nyc")
        story.tell("all", link=None)
        await until(lambda: len(story.nyc.records) == 3 and len(lax.records) == 2)
    assert lax.messages == ["one", "all"]
    assert story.nyc.messages == ["two", "three", "all"]


async def test_a_record_holds_the_occurrence_and_who_told_it() -> None:
    stop = PartitionStop(StopReason.LOST, "they are gone", hint="raise it", first_offset=3, next_offset=9)
    occurrence = of_stop(MirrorPartition("sf-nyc", "orders", "orders", 4), stop, AT)
    async with begun() as story:
        story.outbox.put(occurrence)
        await until(lambda: len(story.nyc.records) == 1)
    ((key, _),) = story.nyc.records
    (document,) = story.nyc.documents
    assert key is None
    assert (document.pop("host"), document.pop("pid"), document["severity"]) == ("here", 77, "error")
    assert decode_occurrence(document) == occurrence


async def test_what_was_told_before_the_clusters_were_known_is_written_too() -> None:
    story = Story()
    story.tell("early")
    story.writer.start()
    story.outbox.attach(story.writer)
    story.tell("late")
    await story.writer.aclose()
    assert story.nyc.messages == ["early", "late"]


async def test_no_topic_is_made_while_there_is_nothing_to_write() -> None:
    async with begun() as story:
        story.tell("about the other cluster", link="sf-tokyo")
        await until(lambda: len(story.tokyo.records) == 1)
        assert story.nyc.opened == []


async def test_many_events_go_in_appends_of_bounded_size() -> None:
    async with begun() as story:
        story.tell(*map(str, range(1000)))
        await until(lambda: len(story.nyc.records) == 1000)
    assert story.nyc.messages == list(map(str, range(1000)))
    assert max(map(len, story.nyc.tried)) == event_writer.EVENTS_AT_ONCE


async def test_large_events_make_small_appends() -> None:
    async with begun() as story:
        story.tell(*["x" * 100_000] * 5)
        await until(lambda: len(story.nyc.records) == 5)
    assert [len(records) for records in story.nyc.tried] == [2, 2, 1]


async def test_events_of_many_threads_are_all_there() -> None:
    def talk(number: int) -> None:
        story.tell(*(f"{number}.{each}" for each in range(50)))

    async with begun() as story:
        threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        await until(lambda: len(story.nyc.records) == 400)
        for thread in threads:
            thread.join()
    assert len(set(story.nyc.messages)) == 400


# -- what clusters do


async def test_a_cluster_that_is_away_gets_everything_in_order_when_it_is_back() -> None:
    async with begun() as story:
        story.nyc.opens = [Disconnected("away"), refused(ErrorCode.NOT_CONTROLLER), None]
        story.nyc.appends = [Disconnected("away"), refused(ErrorCode.NOT_ENOUGH_REPLICAS)]
        story.tell("one")
        await until(lambda: len(story.nyc.tried) == 2)
        story.tell("two", "three")
        await until(lambda: len(story.nyc.records) == 3)
    assert story.nyc.messages == ["one", "two", "three"]
    assert len(story.nyc.opened) == 3  # after an append it is the same log: it knows what is sent again
    assert story.told(Event.NO_LEDGER) == []  # that a cluster is away the mirror tells


async def test_an_append_without_an_answer_is_made_again_as_it_was() -> None:
    async with begun() as story:
        story.nyc.appends = [Disconnected("the answer is lost")]
        story.tell("one")
        await until(lambda: len(story.nyc.tried) == 1)
        story.tell("two")
        await until(lambda: len(story.nyc.records) == 2)
    assert story.nyc.tried[0] == story.nyc.tried[1]


async def test_a_cluster_that_is_away_delays_no_other() -> None:
    async with begun() as story:
        story.nyc.hangs = True
        story.tell("for all", link=None)
        await until(lambda: len(story.tokyo.records) == 1)
        assert story.nyc.records == []


async def test_a_topic_that_was_deleted_is_made_again() -> None:
    async with begun() as story:
        story.tell("one")
        await until(lambda: len(story.nyc.records) == 1)
        story.nyc.appends = [refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        story.tell("two")
        await until(lambda: len(story.nyc.records) == 2)
    assert len(story.nyc.opened) == 2


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
)
@pytest.mark.parametrize("at", ["opens", "appends"])
async def test_a_missing_right_is_told_once_and_nothing_is_written(at: str, code: ErrorCode) -> None:
    async with begun() as story:
        getattr(story.nyc, at).append(refused(code))
        story.tell("one")
        await until(lambda: bool(story.told(Event.NO_LEDGER)))
        story.tell("two")
        story.tell("for all", link=None)
        await until(lambda: len(story.tokyo.records) == 2)
        await asyncio.sleep(0.05)
    (told,) = story.told(Event.NO_LEDGER)
    assert f"cluster 'nyc': events are not written to topic {EVENTS_TOPIC}" in told.message
    assert told.hint == "grant it  # then start the mirror again"
    assert story.nyc.records == []
    assert story.tokyo.messages == [told.message, "for all"]  # the other cluster hears of it


async def test_a_refusal_that_stays_is_told_once_and_tried_again() -> None:
    async with begun() as story:
        story.nyc.opens = [refused(ErrorCode.POLICY_VIOLATION)] * 3
        story.tell("one")
        await until(lambda: bool(story.nyc.records))
    (told,) = story.told(Event.NO_LEDGER)
    assert "POLICY_VIOLATION" in told.message
    assert story.nyc.messages[0] == "one"


async def test_what_the_topic_does_not_take_for_its_size_is_counted_in_its_place() -> None:
    async with begun() as story:
        story.nyc.appends = [refused(ErrorCode.MESSAGE_TOO_LARGE)]
        story.tell("one", "two", "three")
        await until(lambda: bool(story.nyc.records))
        story.tell("four")
        await until(lambda: "four" in story.nyc.messages)
    assert story.nyc.messages[0] == "3 events were left out: they are in the run's log only"
    assert story.nyc.documents[0]["code"] == "events_left_out"
    assert len(story.told(Event.NO_LEDGER)) == 1


async def test_a_topic_that_takes_nothing_at_all_does_not_keep_the_writer_busy() -> None:
    async with begun() as story:
        story.nyc.appends = [refused(ErrorCode.MESSAGE_TOO_LARGE)] * 2
        story.outbox.tell(Event.LANE_UP, "one", link="sf-nyc")
        await until(lambda: len(story.nyc.tried) >= 2)
        await story.writer.aclose()
    assert len(story.nyc.tried) <= 3  # the event, the count of it, and that this was told


async def test_a_bug_in_the_writer_is_reported_and_ends_nothing_else() -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
    async with begun() as story:
        story.nyc.opens = [ZeroDivisionError()]
        story.tell("one")
        await until(lambda: bool(problems))
        story.tell("two", link="sf-tokyo")
        await until(lambda: bool(story.tokyo.records))
    assert isinstance(problems[0]["exception"], ZeroDivisionError)


# -- the end of a run


async def test_what_is_left_is_written_when_the_run_ends() -> None:
    story = Story()
    story.writer.start()
    story.outbox.attach(story.writer)
    story.tell(*map(str, range(3000)))
    await story.writer.aclose()
    assert len(story.nyc.records) == 3000
    story.tell("after the end")
    assert len(story.nyc.records) == 3000


async def test_a_cluster_that_comes_back_while_the_run_ends_gets_what_is_left() -> None:
    async with begun() as story:
        story.nyc.opens = [Disconnected("away")] * 3
        story.tell("last words")
        await story.writer.aclose()
    assert story.nyc.messages == ["last words"]


@pytest.mark.parametrize("fails", [True, False])
async def test_a_cluster_that_stays_away_holds_up_the_end_for_a_bounded_time(fails: bool) -> None:
    async with begun() as story:
        story.nyc.hangs = not fails
        story.nyc.opens = [Disconnected("away")] * 10_000
        story.tell("last words")
        began = time.monotonic()
        await story.writer.aclose(0.2)
        assert 0.15 < time.monotonic() - began < 2.0
        await story.writer.aclose(0.2)  # once more does no harm


async def test_a_writer_that_was_never_started_ends() -> None:
    await Story().writer.aclose()


# -- the queue


def occurrences() -> Iterator[Occurrence]:
    number = 0
    while True:
        yield Occurrence(at=AT, code=Event.LANE_UP, message=str(number))
        number += 1


def test_what_does_not_fit_is_counted_where_it_is_missing() -> None:
    queue, coming = EventQueue(limit=3), occurrences()
    for _ in range(5):
        queue.put(next(coming))
    assert shown(queue.take()) == "0"
    assert shown(queue.take()) == "1"
    queue.put(next(coming))
    assert [shown(queue.take()) for _ in range(4)] == ["2", "2 left out", "5", "None"]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=20))
def test_events_and_those_left_out_make_up_all_that_was_heard(steps: list[tuple[int, int]]) -> None:
    queue, coming = EventQueue(limit=5), occurrences()
    heard, next_number = 0, 0
    for puts, takes in [*steps, (0, 1000)]:
        for _ in range(puts):
            queue.put(next(coming))
            heard += 1
        for _ in range(takes):
            event = queue.take()
            if isinstance(event, LeftOut):
                next_number += event.count
            elif event is not None:
                assert event.message == str(next_number)
                next_number += 1
    assert next_number == heard
    assert queue.close() == 0


def test_a_closed_queue_says_what_it_threw_away_and_takes_nothing() -> None:
    queue, coming = EventQueue(limit=2), occurrences()
    for _ in range(5):
        queue.put(next(coming))
    assert queue.close() == 5
    queue.put(next(coming))
    assert queue.take() is None


def shown(event: Occurrence | LeftOut | None) -> str:
    match event:
        case Occurrence():
            return event.message
        case LeftOut():
            return f"{event.count} left out"
    return "None"


# -- which clusters


def test_a_cluster_that_has_two_names_is_written_once() -> None:
    def client(name: str, cluster_id: str) -> ClusterClient:
        properties = ClientProperties(bootstrap_servers=((name, 9092),))
        metadata = SimpleNamespace(cluster_id=cluster_id)
        return cast(ClusterClient, SimpleNamespace(name=name, properties=properties, metadata=metadata))

    clients = {"a": client("nyc", "1"), "b": client("tokyo", "2"), "c": client("new-york", "1")}
    links = [Link(name=name, source="sf", target=clients[name].name, topics=(".*",)) for name in clients]
    nyc, tokyo = events_targets(links, clients.__getitem__, lambda _client: PlayedCluster())
    assert (nyc.name, nyc.links) == ("nyc", frozenset({"a", "c"}))
    assert (tokyo.name, tokyo.links) == ("tokyo", frozenset({"b"}))
    assert nyc.grant == (
        "kafka-acls.sh --bootstrap-server nyc:9092 --add --allow-principal User:ANONYMOUS --operation Create"
        " --operation Read --operation Write --topic __heliograph_ --resource-pattern-type prefixed"
    )
