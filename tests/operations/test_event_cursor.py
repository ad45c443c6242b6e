"""Where a reader is in the events of one cluster: nothing is read twice, and nothing is passed over in silence."""

from __future__ import annotations

from datetime import timedelta

import pytest

from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.operations.event_cursor import EventCursor
from heliograph.wire.error_codes import ErrorCode

from .played_events import DAY_BEFORE, NOW, PlayedCluster, aim, messages, occurrence, refused

DAY = 24 * 60


class Story:
    """One cluster and who reads it; `told`: what an operator is told besides."""

    def __init__(self, cluster: PlayedCluster, **meant: object) -> None:
        self.cluster = cluster
        self.told: list[str] = []
        self.cursor = EventCursor(cluster, aim(**meant), self.told.append)

    async def read(self) -> list[str]:
        """All that is there."""
        found: list[str] = []
        while True:
            before = self.cursor.next_offset, self.cursor.is_missing
            found += messages(await self.cursor.read(wait_ms=0))
            if before == (self.cursor.next_offset, self.cursor.is_missing):
                return found


async def begun(cluster: PlayedCluster, **meant: object) -> Story:
    story = Story(cluster, **meant)
    await story.cursor.begin()
    return story


def many(count: int) -> PlayedCluster:
    return PlayedCluster("nyc", *(occurrence(str(n), minutes=count - n) for n in range(count)))


async def test_it_begins_with_the_time_that_is_asked_for_and_not_with_the_log() -> None:
    cluster = PlayedCluster("nyc", *(occurrence("old", 10 * DAY) for _ in range(50)), occurrence("new", 5))
    story = await begun(cluster)
    assert story.cursor.next_offset == 50
    assert await story.read() == ["new"]
    assert story.cursor.past_is_read


async def test_what_happened_before_is_left_out_though_it_was_written_later() -> None:
    cluster = PlayedCluster()
    cluster.there.write(occurrence("of a cluster that was away", 2 * DAY), at=NOW)
    cluster.there.write(occurrence("recent", 1))
    assert await (await begun(cluster)).read() == ["recent"]


async def test_clocks_may_differ_by_a_minute() -> None:
    cluster = PlayedCluster()
    cluster.there.write(occurrence("in time", DAY - 0.1), at=DAY_BEFORE - timedelta(seconds=50))
    assert await (await begun(cluster)).read() == ["in time"]


async def test_the_whole_of_a_log_can_be_asked_for() -> None:
    cluster = PlayedCluster("nyc", occurrence("first", 10 * DAY))
    assert await (await begun(cluster, since=DAY_BEFORE.replace(year=1))).read() == ["first"]


async def test_the_past_ends_where_the_log_did_when_it_began() -> None:
    story = await begun(many(4))
    story.cluster.there.write(occurrence("later", 2 * DAY))  # late, but it comes while we read
    assert not story.cursor.past_is_read
    assert await story.read() == ["0", "1", "2", "3", "later"]
    assert story.cursor.past_is_read


async def test_only_what_is_meant_is_read() -> None:
    cluster = PlayedCluster("nyc", occurrence("a"), occurrence("b", link="la-to-nyc"), occurrence("c"))
    assert await (await begun(cluster, names=frozenset({"sf-to-nyc"}))).read() == ["a", "c"]


async def test_what_fails_leaves_the_place_as_it_was() -> None:
    story = await begun(many(5))
    assert messages(await story.cursor.read(wait_ms=0)) == ["0", "1", "2"]
    story.cluster.there.fails = [Disconnected("away"), refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    for _ in range(2):
        with pytest.raises((Disconnected, BrokerRefused)):
            await story.cursor.read(wait_ms=0)
    assert await story.read() == ["3", "4"]


async def test_a_beginning_that_failed_is_made_again() -> None:
    story = Story(many(2))
    story.cluster.finds = [Disconnected("away")]
    with pytest.raises(Disconnected):
        await story.cursor.begin()
    assert not story.cursor.has_begun
    await story.cursor.begin()
    assert await story.read() == ["0", "1"]


# -- topics that come and go


async def test_a_topic_that_is_not_there_holds_no_events_and_is_told_once() -> None:
    cluster = PlayedCluster()
    cluster.log = None
    story = await begun(cluster)
    assert (story.cursor.past_is_read, await story.read(), await story.read()) == (True, [], [])
    assert story.told == [
        "cluster 'nyc': topic __heliograph_events is not there: no run has told anything yet"
    ]


async def test_of_a_topic_that_is_made_meanwhile_all_is_new() -> None:
    cluster = PlayedCluster()
    cluster.log = None
    story = await begun(cluster)
    cluster.make_topic(occurrence("from before", 2 * DAY), occurrence("now"))
    assert await story.read() == ["from before", "now"]


async def test_a_topic_that_was_made_anew_is_read_from_its_first_record() -> None:
    story = await begun(many(5))
    await story.read()
    story.cluster.delete_topic()
    story.cluster.make_topic(*(occurrence(f"new {n}") for n in range(7)))  # longer than what was read
    assert await story.read() == [f"new {n}" for n in range(7)]


async def test_a_topic_that_is_deleted_is_told_once_and_looked_for() -> None:
    story = await begun(many(2))
    await story.read()
    log = story.cluster.there
    story.cluster.delete_topic()
    assert story.cluster.log is None
    with pytest.raises(BrokerRefused):
        await story.cursor.read(wait_ms=0)
    log.fails = []
    assert (await story.read(), await story.read()) == ([], [])
    assert story.cursor.is_lost
    assert story.told == ["cluster 'nyc': topic __heliograph_events is not there any more"]
    story.cluster.make_topic(occurrence("again"))
    assert await story.read() == ["again"]


async def test_a_topic_that_a_broker_did_not_know_for_a_moment_is_not_read_again() -> None:
    story = await begun(many(3))
    await story.read()
    log = story.cluster.there
    story.cluster.delete_topic()
    with pytest.raises(BrokerRefused):
        await story.cursor.read(wait_ms=0)
    await story.read()
    story.cluster.log = log
    log.write(occurrence("next"))
    assert await story.read() == ["next"]


# -- logs that are not what they were


async def test_events_that_were_deleted_before_they_were_read_are_counted() -> None:
    story = await begun(many(10))
    assert len(await story.cursor.read(wait_ms=0)) == 3
    story.cluster.there.delete_before(7)
    assert await story.read() == ["7", "8", "9"]
    assert story.told == [
        "warning: cluster 'nyc', topic __heliograph_events: 4 events were deleted before they were read"
    ]


async def test_a_log_that_lost_its_end_is_told_and_nothing_is_read_twice() -> None:
    story = await begun(many(6))
    await story.read()
    story.cluster.there.truncate(4)
    assert await story.read() == []
    (told,) = story.told
    assert "the log ends at offset 4, and was read up to 6" in told
    story.cluster.there.write(occurrence("next"))
    assert await story.read() == ["next"]


async def test_a_leader_that_refuses_an_offset_that_it_has_is_asked_again() -> None:
    story = await begun(many(4))
    await story.cursor.read(wait_ms=0)
    story.cluster.there.fails = [refused(ErrorCode.OFFSET_OUT_OF_RANGE)]
    with pytest.raises(BrokerRefused):
        await story.cursor.read(wait_ms=0)
    assert await story.read() == ["3"]
    assert story.told == []


async def test_a_record_that_cannot_be_read_is_told_once_and_passed_over() -> None:
    cluster = PlayedCluster("nyc", occurrence("a"))
    cluster.there.write(b"\x02{}", b"\x02[]", occurrence("b"))
    story = await begun(cluster)
    assert await story.read() == ["a", "b"]
    (told,) = story.told
    assert "the record at offset 1 is of version 2; this Heliograph reads version 1; it is left out" in told
