"""Events of several logs in the order of time, with bounded memory; the newest; and what is told once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.events import Event
from heliograph.operations.event_absence import AWAY_S, Absence
from heliograph.operations.event_echoes import Echoes
from heliograph.operations.event_order import Newest, TimeOrder
from heliograph.operations.recorded_event import RecordedEvent

from .played_events import messages, recorded

PAGE = 3


def merge(logs: list[list[RecordedEvent]], window: int) -> tuple[list[RecordedEvent], int]:
    """What comes out, and how many were held at most."""
    order, places, most = TimeOrder(len(logs), window), [0] * len(logs), 0
    out: list[RecordedEvent] = []
    while not order.is_over:
        for log in order.wanting:
            page = logs[log][places[log] : places[log] + PAGE]
            places[log] += len(page)
            order.put(log, page)
            if places[log] == len(logs[log]):
                order.end(log)
        most = max(most, sum(places) - len(out))
        out += order.take()
    return out, most


minutes = st.lists(st.integers(0, 50), max_size=40)


@given(st.lists(minutes, max_size=4), st.integers(0, 10))
def test_nothing_is_lost_or_doubled_and_memory_is_bounded(logs: list[list[int]], window: int) -> None:
    told = [[recorded(f"{log}.{n}", m) for n, m in enumerate(some)] for log, some in enumerate(logs)]
    out, most = merge(told, window)
    assert Counter(messages(out)) == Counter(e.message for some in told for e in some)
    assert most <= len(logs) * (window + PAGE)


@given(st.lists(minutes, max_size=4))
def test_logs_that_are_in_order_come_out_as_one(logs: list[list[int]]) -> None:
    told = [
        [recorded(f"{log}.{n}", m) for n, m in enumerate(sorted(some, reverse=True))]
        for log, some in enumerate(logs)
    ]
    out, _ = merge(told, window=0)
    # Of one time: the first log's first, each log's in its own order.
    assert out == sorted((event for some in told for event in some), key=lambda event: event.at)


@given(minutes, st.integers(1, 5))
def test_what_is_late_by_no_more_than_the_window_is_put_in_its_place(ages: list[int], late: int) -> None:
    in_order = [recorded(str(n), m) for n, m in enumerate(sorted(ages, reverse=True))]
    disordered = [
        in_order[at] for start in range(0, len(in_order), late + 1) for at in _turned(start, late, in_order)
    ]
    out, _ = merge([disordered], window=late)
    assert [event.at for event in out] == [event.at for event in in_order]


def _turned(start: int, late: int, events: list[RecordedEvent]) -> list[int]:
    return list(reversed(range(start, min(start + late + 1, len(events)))))


@given(minutes, st.integers(1, 10))
def test_the_newest_are_those_that_happened_last(ages: list[int], most: int) -> None:
    newest = Newest(most)
    told = [recorded(str(n), m) for n, m in enumerate(ages)]
    newest.put(told[: len(told) // 2])
    newest.put(told[len(told) // 2 :])
    assert newest.events == sorted(told, key=lambda event: event.at)[-most:]
    assert newest.left_out == max(len(told) - most, 0)


# -- echoes


def test_what_is_about_a_run_is_told_once_though_two_clusters_hold_it() -> None:
    echoes = Echoes()
    here, there = recorded("up", link=None), recorded("up", link=None, target="tokyo")
    assert echoes.without([here, there]) == [here]
    assert echoes.without([there]) == [there]  # told twice in one millisecond: once more than by the other
    assert echoes.without([here]) == []


def test_what_is_about_a_link_or_about_one_cluster_is_no_echo() -> None:
    echoes = Echoes()
    for link, code in (("sf-to-nyc", Event.LANE_UP), (None, Event.EVENTS_LEFT_OUT)):
        both = [recorded("same", link=link, code=code, target=target) for target in ("nyc", "tokyo")]
        assert echoes.without(both) == both


def test_only_so_many_are_remembered() -> None:
    echoes = Echoes(remembered=2)
    told = [recorded(str(n), link=None) for n in range(3)]
    assert echoes.without(told) == told
    late = [recorded(str(n), link=None, target="tokyo") for n in range(3)]
    assert messages(echoes.without([late[2], late[0]])) == ["0"]


# -- clusters that are away


def test_that_a_cluster_is_away_is_told_once_when_it_lasts_and_once_when_it_is_over() -> None:
    absence = Absence("nyc", 0.0)
    assert absence.is_away("no answer", AWAY_S - 1) is None
    assert absence.is_here(AWAY_S) is None
    assert absence.is_away("no answer", 2 * AWAY_S - 1) is None
    assert absence.is_away("no answer", 2 * AWAY_S) == "warning: no answer; it is tried again"
    assert absence.is_away("no answer", 9 * AWAY_S) is None
    assert absence.is_here(10 * AWAY_S) == "cluster 'nyc' is back: its events are followed again"
    assert absence.is_here(10 * AWAY_S) is None
    absence.is_asked(30 * AWAY_S)  # nobody has asked it meanwhile
    assert absence.is_away("no answer", 31 * AWAY_S - 1) is None
    assert absence.is_given_up("refused") == "warning: refused; it is tried again"
    assert absence.is_away("refused", 40 * AWAY_S) is None
