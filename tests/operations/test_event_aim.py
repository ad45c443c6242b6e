"""Which events an operator means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from heliograph.model.errors import UsageError
from heliograph.model.link import Link
from heliograph.operations.event_aim import EventAim, since_time, take_event_aim

from .played_events import NOW, recorded

SF = Link(name="sf-to-nyc", source="sf", target="nyc", topics=("orders",))
LA = Link(name="la-to-sf", source="la", target="sf", topics=("payments",))


def take(*names: str, since: str = "24h", **given: Any) -> EventAim:
    return take_event_aim([SF, LA], names, since=since, now=NOW, **given)


def test_without_words_all_links_and_all_events_are_meant() -> None:
    aim = take()
    assert aim.links == (SF, LA)
    assert aim.means(recorded("of a run", link=None))
    assert aim.means(recorded("of a link of another config", link="tokyo-to-nyc"))


def test_only_the_clusters_of_the_links_that_are_named_are_read() -> None:
    aim = take("la-to-sf", "la-to-sf")
    assert aim.links == (LA,)
    assert aim.means(recorded("", link="la-to-sf"))
    assert not aim.means(recorded("", link="sf-to-nyc"))
    assert not aim.means(recorded("of a run", link=None))


def test_a_topic_is_meant_by_its_source_name_and_its_partitions() -> None:
    aim = take(topics=["orders:0,3", "payments"])

    def means(topic: str | None, partition: int | None) -> bool:
        return aim.means(recorded("", source_topic=topic, target_topic="sf.orders", partition=partition))

    assert [means("orders", n) for n in (0, 1, 3)] == [True, False, True]
    assert means("orders", None)  # the topic as a whole
    assert means("payments", 9)
    assert not means("sf.orders", 0)
    assert not means(None, None)


def test_topics_that_nobody_mirrors_now_are_named() -> None:
    assert take("sf-to-nyc", topics=["orders:1", "payments", "order"]).unmirrored == ("payments", "order")


def test_codes_are_those_of_the_page() -> None:
    aim = take(codes=["lost", "lane_up"])
    assert aim.means(recorded(""))
    assert not aim.means(recorded("", code="standby"))
    with pytest.raises(UsageError, match="no code 'LOSED'") as refused:
        take(codes=["LOSED"])
    assert refused.value.hint.startswith("near it: lost")
    with pytest.raises(UsageError) as refused:
        take(codes=["qqqqq"])
    assert refused.value.hint == "docs/EVENTS.md lists all codes"


def test_a_link_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no link 'nyc'") as refused:
        take("nyc")
    assert refused.value.hint == "it has sf-to-nyc, la-to-sf"
    with pytest.raises(UsageError) as refused:
        take("other.yaml")
    assert refused.value.hint.endswith("a config file is named by -f other.yaml")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("15m", NOW - timedelta(minutes=15)),
        ("1h", NOW - timedelta(hours=1)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(weeks=2)),
        ("999999w", datetime.min.replace(tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_since_is_an_age_or_a_time(text: str, time: datetime) -> None:
    assert since_time(text, NOW) == time


@pytest.mark.parametrize("text", ["", "1", "h", "1y", "1h30m", "earliest", "yesterday"])
def test_since_is_nothing_else(text: str) -> None:
    with pytest.raises(UsageError, match="neither an age nor a time") as refused:
        since_time(text, NOW)
    assert "7d" in refused.value.hint
