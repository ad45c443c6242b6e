"""What an operator is told of the roles of a run: who copies a link's topics, and trouble of an election that lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from heliograph.controller.drivership import Standby
from heliograph.controller.finding import listed
from heliograph.controller.plan import Plan
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox

TOLD_AFTER_S = 3.0  # a coordinator that is being made, or that moves, is back sooner


def holders_of(todo: Plan) -> str:
    """Who holds the topics that are left to others."""
    return ", and ".join(dict.fromkeys(str(each.holder) for each in todo.left))


def tell_active(outbox: Outbox, link: str, generation: int, todo: Plan) -> None:
    words = f"link {link}: this run is the active driver (generation {generation})"
    outbox.tell(Event.ACTIVE, words, link=link)
    topics = {each.partition.target_topic for each in todo.left}
    if topics:
        words = (
            f"link {link}: {len(topics)} of its target topics are held by {holders_of(todo)}: {listed(topics)};"
            " this run takes them over when that one ends"
        )
        outbox.tell(Event.OTHER_CONFIG, words, link=link)


def tell_standby(outbox: Outbox, link: str, role: Standby) -> None:
    active = role.active or "another driver"
    said = f"link {link}: this run stands by and takes over by itself; the active one is {active}"
    if role.alike:
        outbox.tell(Event.STANDBY, said, link=link)
    else:
        said += ". Its config selects other topics for this link: topics that only this run selects wait until then"
        outbox.tell(Event.OTHER_CONFIG, said, link=link)


class LastingTrouble:
    """Trouble of elections, by link. What is over in a moment is not told; trouble whose words change all the time
    lasts, too. `problem_of` a link: what it is now, None if it is over."""

    def __init__(self, problem_of: Callable[[str], str | None], outbox: Outbox) -> None:
        self._problem_of = problem_of
        self._outbox = outbox
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def begin(self, link: str) -> None:
        if link not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[link] = loop.call_later(TOLD_AFTER_S, self._tell, link)

    def end(self, link: str) -> None:
        timer = self._timers.pop(link, None)
        if timer is not None:
            timer.cancel()

    def _tell(self, link: str) -> None:
        del self._timers[link]
        problem = self._problem_of(link)
        if problem is not None:
            self._outbox.tell(Event.ELECTION, f"link {link}: {problem}", link=link)
