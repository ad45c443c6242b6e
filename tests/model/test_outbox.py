"""The outbox: all listeners hear of everything, once, also those that come late."""

from __future__ import annotations

import threading

from heliograph.model.events import Event
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import LAST, Outbox


class Ear:
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.flushed: list[bool] = []

    def hear(self, occurrence: Occurrence) -> None:
        self.heard.append(occurrence.message)

    def flush(self, *, over: bool) -> None:
        self.flushed.append(over)


def test_a_listener_that_comes_late_hears_what_was_told_before() -> None:
    first, late = Ear(), Ear()
    outbox = Outbox(first)
    outbox.tell(Event.ACTIVE, "one")
    outbox.tell(Event.LANE_UP, "two")
    outbox.attach(late)
    outbox.tell(Event.LANE_GONE, "three")
    outbox.flush(over=True)
    assert first.heard == late.heard == ["one", "two", "three"]
    assert first.flushed == late.flushed == [True]
    assert sum(outbox.counts.values()) == 3


def test_a_listener_that_comes_very_late_hears_the_last_ones() -> None:
    late, outbox = Ear(), Outbox()
    for number in range(LAST + 5):
        outbox.tell(Event.LANE_UP, str(number))
    outbox.attach(late)
    assert late.heard == [str(number) for number in range(5, LAST + 5)]


def test_a_listener_that_comes_while_others_talk_hears_everything_once_and_in_order() -> None:
    late, outbox = Ear(), Outbox()
    begun = threading.Event()

    def talk() -> None:
        for number in range(LAST):
            outbox.tell(Event.LANE_UP, str(number))
            begun.set()

    talker = threading.Thread(target=talk)
    talker.start()
    begun.wait()
    outbox.attach(late)
    talker.join()
    assert late.heard == [str(number) for number in range(LAST)]
