"""Events of several target clusters: all that is there in one order, and then what comes, whatever clusters do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.model.errors import ClusterUnreachable, CommandRefused, Disconnected, HeliographError
from heliograph.model.events import Event
from heliograph.operations import event_absence, event_reading
from heliograph.operations.event_reading import EventReader
from heliograph.operations.recorded_event import RecordedEvent
from heliograph.wire.error_codes import ErrorCode

from .played_events import PlayedCluster, aim, messages, occurrence, refused

SOON_S = 5.0
AWAY = ClusterUnreachable("cluster 'tokyo' cannot be reached", hint="check it")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("IDLE_S", 0.001),
        ("AGAIN_S", 0.002),
        ("MISSING_LOOK_S", 0.002),
        ("PATIENCE_S", 0.05),
    ):
        monkeypatch.setattr(event_reading, name, value)
    monkeypatch.setattr(event_absence, "AWAY_S", 0.02)


class Told:
    """What comes out: `events`, and `words` beside them."""

    def __init__(self, *clusters: PlayedCluster, follows: bool = False, **meant: object) -> None:
        self.events: list[RecordedEvent] = []
        self.words: list[str] = []
        self.reader = EventReader(clusters, aim(**meant), self.words.append, follows=follows)

    @property
    def messages(self) -> list[str]:
        return messages(self.events)

    async def take(self, events: Sequence[RecordedEvent]) -> None:
        await asyncio.sleep(0)
        assert events
        self.events += events


async def past_of(*clusters: PlayedCluster, follows: bool = False, **meant: object) -> Told:
    told = Told(*clusters, follows=follows, **meant)
    try:
        await told.reader.read_past(told.take)
    finally:
        await told.reader.aclose()
    assert all(cluster.closed for cluster in clusters)
    return told


@asynccontextmanager
async def followed(*clusters: PlayedCluster) -> AsyncIterator[Told]:
    told = Told(*clusters, follows=True)
    await told.reader.read_past(told.take)
    following = asyncio.create_task(told.reader.follow(told.take))
    try:
        yield told
        assert not following.done()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await told.reader.aclose()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not true():  # noqa: ASYNC110 - a list is no event
            await asyncio.sleep(0.002)


def pair() -> tuple[PlayedCluster, PlayedCluster]:
    nyc = PlayedCluster("nyc", *(occurrence(f"nyc {n}", 20 - 2 * n) for n in range(8)))
    tokyo = PlayedCluster("tokyo", *(occurrence(f"tokyo {n}", 19 - 2 * n) for n in range(8)))
    return nyc, tokyo


# -- what is there


async def test_events_of_all_clusters_are_merged_in_order_of_time() -> None:
    told = await past_of(*pair())
    assert told.messages == [f"{name} {n}" for n in range(8) for name in ("nyc", "tokyo")]
    assert [event.target for event in told.events[:2]] == ["nyc", "tokyo"]
    assert (told.reader.failure, told.words) == (None, [])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=12), min_size=1, max_size=3), st.integers(1, 4))
def test_whatever_was_written_is_read_once(ages: list[list[int]], page: int) -> None:
    async def read() -> None:
        clusters = [PlayedCluster(f"c{at}") for at in range(len(ages))]
        for at, cluster in enumerate(clusters):
            cluster.there.page = page
            cluster.there.write(*(occurrence(f"{at}.{n}", minutes) for n, minutes in enumerate(ages[at])))
        told = await past_of(*clusters)
        assert sorted(told.messages) == sorted(
            f"{at}.{n}" for at, some in enumerate(ages) for n in range(len(some))
        )
        times = [event.at for event in told.events]
        assert times == sorted(times)

    asyncio.run(read())


async def test_a_topic_that_is_not_there_is_no_problem() -> None:
    nyc, tokyo = pair()
    tokyo.log = None
    told = await past_of(nyc, tokyo)
    assert told.messages == [f"nyc {n}" for n in range(8)]
    assert told.reader.failure is None
    assert told.words == [
        "cluster 'tokyo': topic __heliograph_events is not there: no run has told anything yet"
    ]


async def test_what_is_about_a_run_is_told_once() -> None:
    both = [occurrence(f"run {n}", link=None, code=Event.ACTIVE) for n in range(3)]
    told = await past_of(PlayedCluster("nyc", *both), PlayedCluster("tokyo", *both))
    assert told.messages == ["run 0", "run 1", "run 2"]


async def test_a_cluster_with_two_names_is_read_once() -> None:
    nyc, _ = pair()
    again = PlayedCluster("nyc-again", cluster_id=nyc.cluster_id)
    again.log = nyc.log
    told = await past_of(nyc, again)
    assert len(told.messages) == 8


async def test_without_any_cluster_there_is_nothing_to_show() -> None:
    nyc, tokyo = pair()
    nyc.connects, tokyo.connects = [ClusterUnreachable("cluster 'nyc' cannot be reached")], [AWAY]
    with pytest.raises(ClusterUnreachable) as raised:
        await past_of(nyc, tokyo)
    assert raised.value.message.splitlines() == [
        "cluster 'nyc' cannot be reached",
        "cluster 'tokyo' cannot be reached",
    ]
    assert nyc.closed


async def test_a_cluster_that_is_away_leaves_the_others_to_be_read() -> None:
    nyc, tokyo = pair()
    tokyo.connects = [AWAY]
    told = await past_of(nyc, tokyo)
    assert len(told.messages) == 8
    assert isinstance(told.reader.failure, ClusterUnreachable)
    assert told.reader.failure.hint == "check it"
    assert told.words == []


@pytest.mark.parametrize("at", ["find", "read"])
async def test_a_missing_right_is_refused_with_the_line_that_grants_it(at: str) -> None:
    nyc, tokyo = pair()
    fates: list[HeliographError | None] = [refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    if at == "find":
        tokyo.finds = fates
    else:
        tokyo.there.fails = fates
    told = await past_of(nyc, tokyo)
    assert len(told.messages) == 8
    assert isinstance(told.reader.failure, CommandRefused)
    assert "events of cluster 'tokyo' cannot be read" in told.reader.failure.message
    assert told.reader.failure.hint == "grant READ: kafka-acls.sh --grant-on-tokyo"


async def test_a_leader_that_moves_is_waited_for() -> None:
    nyc, tokyo = pair()
    tokyo.finds = [Disconnected("away")]
    tokyo.there.fails = [None, refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), Disconnected("away"), None]
    told = await past_of(nyc, tokyo)
    assert len(told.messages) == 16
    assert tokyo.there.looks >= 2
    assert (told.words, told.reader.failure) == ([], None)


async def test_a_cluster_that_leaves_for_long_is_a_problem_and_what_was_read_is_shown() -> None:
    nyc, tokyo = pair()
    tokyo.there.fails = [None, *[Disconnected("no answer")] * 1000]
    told = await past_of(nyc, tokyo)
    assert [each for each in told.messages if "tokyo" in each] == ["tokyo 0", "tokyo 1", "tokyo 2"]
    assert len(told.messages) == 11
    assert isinstance(told.reader.failure, ClusterUnreachable)
    assert "no answer" in told.reader.failure.message


async def test_a_topic_that_is_deleted_under_the_reader_is_a_problem() -> None:
    nyc, tokyo = pair()
    log = tokyo.there
    log.fails = [refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 1000
    reading = asyncio.create_task(past_of(nyc, tokyo))
    await until(lambda: len(log.fails) < 1000)
    tokyo.log = None
    told = await reading
    assert len(told.messages) == 8
    assert isinstance(told.reader.failure, ClusterUnreachable)
    assert "is not there any more" in told.reader.failure.message


async def test_records_that_do_not_come_end_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_reading, "IDLE_MOST", 3)
    nyc, _ = pair()
    nyc.there.page = 0
    told = await past_of(nyc)
    assert isinstance(told.reader.failure, ClusterUnreachable)
    assert "records of __heliograph_events from offset 0 on do not come" in told.reader.failure.message


# -- what comes


async def test_what_comes_is_told_as_it_comes_behind_all_that_was_there() -> None:
    nyc, tokyo = pair()
    async with followed(nyc, tokyo) as told:
        assert len(told.messages) == 16
        tokyo.there.write(occurrence("one"))
        await until(lambda: told.messages[16:] == ["one"])
        nyc.there.write(occurrence("two", 10_000))  # late: it is shown all the same
        await until(lambda: told.messages[17:] == ["two"])
        both = occurrence("three", link=None)
        nyc.there.write(both)
        tokyo.there.write(both)
        tokyo.there.write(occurrence("four"))
        await until(lambda: "four" in told.messages)
    assert told.messages[18:] == ["three", "four"]
    assert told.words == []


async def test_a_topic_that_is_made_while_it_is_followed_is_told_from_its_first_event() -> None:
    nyc = PlayedCluster()
    nyc.log = None
    async with followed(nyc) as told:
        nyc.make_topic(occurrence("first"), occurrence("second"))
        await until(lambda: told.messages == ["first", "second"])
        nyc.delete_topic()
        nyc.make_topic(occurrence("third"), identity="of another topic")
        await until(lambda: told.messages == ["first", "second", "third"])


async def test_a_cluster_that_is_away_for_a_while_loses_and_doubles_nothing_and_is_told_once() -> None:
    nyc, tokyo = pair()
    async with followed(nyc, tokyo) as told:
        nyc.there.fails = [Disconnected("no answer")] * 40
        await until(lambda: len(nyc.there.fails) < 40)
        nyc.there.write(occurrence("while it is away"))
        tokyo.there.write(occurrence("meanwhile"))
        await until(lambda: "while it is away" in told.messages)
        nyc.there.write(occurrence("after"))
        await until(lambda: "after" in told.messages)
    assert told.messages[16:] == ["meanwhile", "while it is away", "after"]
    away, back = told.words
    assert away.startswith("warning: events of cluster 'nyc' cannot be read: no answer")
    assert back == "cluster 'nyc' is back: its events are followed again"


async def test_a_leader_that_moves_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_absence, "AWAY_S", 5.0)
    nyc, _ = pair()
    async with followed(nyc) as told:
        nyc.there.fails = [refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 3
        await until(lambda: len(nyc.there.fails) < 3)
        nyc.there.write(occurrence("next"))
        await until(lambda: "next" in told.messages)
    assert told.words == []


async def test_a_cluster_that_is_away_at_the_start_is_waited_for_and_its_past_is_told() -> None:
    nyc, tokyo = pair()
    tokyo.connects = [AWAY] * 5
    tokyo.there.write(occurrence("long ago", 10_000))
    async with followed(nyc, tokyo) as told:
        await until(lambda: len(told.messages) == 16)
        tokyo.there.write(occurrence("new"))
        await until(lambda: "new" in told.messages)
    assert told.messages[8:] == [*(f"tokyo {n}" for n in range(8)), "new"]
    assert told.words == [
        "warning: cluster 'tokyo' cannot be reached (hint: check it); it is tried again",
        "cluster 'tokyo' is back: its events are followed again",
    ]


async def test_a_cluster_that_leaves_while_its_past_is_read_does_not_hold_up_the_others() -> None:
    nyc, tokyo = pair()
    tokyo.there.fails = [None, *[Disconnected("no answer")] * 60]
    async with followed(nyc, tokyo) as told:
        nyc.there.write(occurrence("new"))
        await until(lambda: len(told.messages) == 17)
    assert told.messages.index("nyc 7") < told.messages.index("tokyo 7")
    assert sorted(told.messages) == sorted([*(f"{c} {n}" for c in ("nyc", "tokyo") for n in range(8)), "new"])


async def test_without_any_cluster_there_is_nothing_to_follow() -> None:
    nyc, _ = pair()
    nyc.connects = [AWAY]
    told = Told(nyc, follows=True)
    with pytest.raises(ClusterUnreachable):
        await told.reader.read_past(told.take)
    assert told.words == []
    await told.reader.aclose()


async def test_a_cluster_with_two_names_is_followed_once() -> None:
    nyc, _ = pair()
    again = PlayedCluster("nyc-again", cluster_id=nyc.cluster_id)
    again.log = nyc.log
    again.connects = [AWAY] * 2
    async with followed(nyc, again) as told:
        await until(lambda: not again.connects)
        nyc.there.write(occurrence("new"))
        await until(lambda: "new" in told.messages)
        await asyncio.sleep(0.02)
    assert told.messages.count("new") == 1


async def test_a_bug_ends_it() -> None:
    nyc, tokyo = pair()
    told = Told(nyc, tokyo, follows=True)
    await told.reader.read_past(told.take)

    async def fail(_events: Sequence[RecordedEvent]) -> None:
        raise ZeroDivisionError

    nyc.there.write(occurrence("new"))
    with pytest.raises(ZeroDivisionError):
        await told.reader.follow(fail)
    await told.reader.aclose()


async def test_a_cluster_that_was_not_asked_for_long_has_its_time_when_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nyc, tokyo = pair()
    tokyo.there.fails = [None, Disconnected("no answer")]
    told, now = Told(nyc, tokyo), 0.0

    def much_later() -> float:
        return now

    monkeypatch.setattr(event_reading, "clock_of_waits", much_later)
    read = nyc.there.read

    async def slowly(*place: int, **wait: int) -> object:
        nonlocal now
        now += 1000.0
        return await read(*place, **wait)

    monkeypatch.setattr(nyc.there, "read", slowly)
    await told.reader.read_past(told.take)
    assert told.reader.failure is None
    assert len(told.messages) == 16
    await told.reader.aclose()
