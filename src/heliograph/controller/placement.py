"""Which lane holds which partition, and who gets it next. No I/O; `now` is an argument.

Every partition has a home lane. While that is away for long, or hangs, another lane has it as a guest; when the home
is back, and stays, it is taken from the guest and given home. A partition is never given before its holder has let go
of it or is gone, nor while a lane that is gone may hold an exclusive lease of it; and with it goes how long something
that the last holder sent may still arrive (`clear_in_s`), which the lane waits out where the broker cannot compare
(copier/partition_copy.py).

    free ──give──▶ held ──take──▶ leaving ──let go──▶ free
                    └── its lane is gone ───────────────┘
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from heliograph.controller.balance import balance
from heliograph.controller.plan import CopyPartition
from heliograph.copier.lease import ALIVE_S
from heliograph.model.partition import MirrorPartition

AWAY_LIMIT_S = 5.0  # a lane that was killed is back sooner
HOME_AFTER_S = 5.0  # a lane that comes and goes gets nothing back


@dataclass(frozen=True, slots=True, kw_only=True)
class Give:
    lane: int
    copies: tuple[CopyPartition, ...]
    clear_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    lane: int
    partitions: tuple[MirrorPartition, ...]


Order = Give | Take


@dataclass(slots=True)
class _Place:
    copy: CopyPartition
    home: int
    wanted: bool = True
    holder: int | None = None
    leaving: bool = False
    recalled: bool = False  # held since before others may have been the link's driver
    free_at: float = float("-inf")  # when its last holder has no exclusive lease any more
    clear_at: float = float("-inf")  # when all that its last holder sent is over

    @property
    def at_rest(self) -> bool:
        if self.holder is None:
            return not self.wanted
        return self.holder == self.home and self.wanted and not (self.leaving or self.recalled)


@dataclass(slots=True)
class _LaneState:
    up: bool = False
    since: float = float("-inf")


class Placement:
    """`flight_s` by link: how long an append without an answer may still be on its way."""

    def __init__(self, lanes: int, flight_s: Mapping[str, float], now: float) -> None:
        self._lanes = {lane: _LaneState(since=now) for lane in range(lanes)}
        self._flight_s = dict(flight_s)
        self._places: dict[MirrorPartition, _Place] = {}
        self._clear_at: dict[str, float] = {}  # by link: when all of its last driver's appends are over
        self._sooner: dict[MirrorPartition, float] = {}  # the same of partitions that it had drained
        self._at_rest = False  # every partition is where it belongs: time alone changes nothing

    def add_link(self, link: str, flight_s: float) -> None:
        self._flight_s[link] = flight_s

    # -- what happened

    def adopt(
        self,
        link: str,
        copies: Iterable[CopyPartition],
        clear_at: float,
        created: Collection[str] = (),
        sooner: Mapping[MirrorPartition, float] = MappingProxyType({}),
    ) -> None:
        """This run is the link's active driver now. `clear_at`: when all that the last one's lanes sent is over; of
        topics that were `created` just now nothing can be, and of partitions that it has drained it is over `sooner`.
        What our own lanes hold from before is taken back first: they know nothing of that."""
        self.drop(link)
        self._at_rest = False
        self._clear_at[link] = clear_at
        self._sooner = {key: at for key, at in self._sooner.items() if key.link != link} | dict(sooner)
        for key, place in self._places.items():
            # Known from before somebody else drove the link, though it may not be wanted now.
            if key.link == link and key.target_topic not in created:
                place.clear_at = max(place.clear_at, self._inherited(key))
        homes = self._homes()
        for home, portion in enumerate(balance(tuple(copies), [homes[lane] for lane in self._lanes])):
            for copy in portion:
                new = copy.spec.partition.target_topic in created
                self._adopt(copy, home, float("-inf") if new else self._inherited(copy.spec.partition))

    def extend(self, copies: Iterable[CopyPartition], created: Collection[str] = ()) -> None:
        """These of a link that is ours are wanted, too; nobody holds them now, or they were released."""
        self._at_rest = False
        homes = self._homes()
        for copy in copies:
            key = copy.spec.partition
            known = self._places.get(key)
            home = min(self._lanes, key=lambda lane: homes[lane]) if known is None else known.home
            homes[home] += 1
            new = key.target_topic in created
            # Whoever drove the link before us may have sent something: of one that no lane of ours ever held, too.
            self._adopt(copy, home, self._inherited(key) if known is None and not new else float("-inf"))

    def add_lane(self, now: float) -> None:
        """One more, which is not up yet. What is on others stays there; what comes goes to the one with the least."""
        self._lanes[len(self._lanes)] = _LaneState(since=now)

    def _homes(self) -> Counter[int]:
        """How many partitions are at home on each lane, of all links."""
        return Counter(place.home for place in self._places.values() if place.wanted)

    def release(self, partitions: Iterable[MirrorPartition]) -> None:
        """Nobody is to copy these."""
        self._at_rest = False
        for key in partitions:
            if key in self._places:
                self._places[key].wanted = False

    def forget(self, partitions: Iterable[MirrorPartition]) -> None:
        """Nobody holds these, and they are not to be copied any more. How long something of ours may still arrive
        there stays known: they may come back."""
        for key in partitions:
            place = self._places.pop(key, None)
            if place is not None:
                assert place.holder is None
                self._sooner[key] = place.clear_at

    def is_free(self, partition: MirrorPartition) -> bool:
        """No lane holds it."""
        place = self._places.get(partition)
        return place is None or place.holder is None

    def knows(self, partition: MirrorPartition) -> bool:
        """It was to be copied since this run began."""
        return partition in self._places

    def over_at(self, partition: MirrorPartition) -> float:
        """When nothing that was sent there can still arrive; of what a lane holds, as of when it was given."""
        place = self._places.get(partition)
        return self._inherited(partition) if place is None else place.clear_at

    def _inherited(self, partition: MirrorPartition) -> float:
        """When all is over that whoever drove the link before us has sent there."""
        return self._sooner.get(partition, self._clear_at.get(partition.link, float("-inf")))

    def _adopt(self, copy: CopyPartition, home: int, clear_at: float) -> None:
        place = self._places.setdefault(copy.spec.partition, _Place(copy, home))
        place.copy, place.home, place.wanted = copy, home, True
        place.recalled = place.holder is not None
        place.clear_at = max(place.clear_at, clear_at)

    def drop(self, link: str) -> None:
        """This run is the link's active driver no more."""
        self._at_rest = False
        for key, place in self._places.items():
            if key.link == link:
                place.wanted = False

    def of_link(self, link: str) -> list[MirrorPartition]:
        return [key for key in self._places if key.link == link]

    def lane_up(self, lane: int, now: float) -> None:
        self._at_rest = False
        self._lanes[lane] = _LaneState(up=True, since=now)

    def lane_gone(
        self, lane: int, now: float, *, clean: bool, hung: bool, leased_until: Callable[[str], float]
    ) -> None:
        """`hung`: nobody waits for it to come back, and it may go on for a while without us. A lane whose line has
        ended is dead, or stops at once."""
        self._at_rest = False
        self._lanes[lane] = _LaneState(up=False, since=now - AWAY_LIMIT_S if hung else now)
        for key, place in self._places.items():
            if place.holder == lane:
                goes_on_until = now + ALIVE_S if hung else now
                leased = leased_until(key.link)
                over_at = max(leased, goes_on_until) + self._flight_s[key.link]
                place.free_at = now if clean else leased
                self._free(place, now if clean else over_at)

    def let_go(self, partition: MirrorPartition, lane: int, now: float, *, clean: bool) -> None:
        """The answer to a `Take`; one that comes after the lane was replaced, and given it anew, means nothing."""
        place = self._places.get(partition)
        if place is not None and place.holder == lane and place.leaving:
            self._free(place, now if clean else now + self._flight_s[partition.link])

    def gaps_filled(self, partitions: Iterable[MirrorPartition]) -> None:
        """From now on gaps of these may be filled: whoever is given one next is told so."""
        for key in partitions:
            place = self._places.get(key)
            if place is not None:
                place.copy = replace(place.copy, spec=replace(place.copy.spec, gaps_filled=True))

    def _free(self, place: _Place, clear_at: float) -> None:
        self._at_rest = False
        place.holder, place.leaving, place.recalled = None, False, False
        place.clear_at = max(place.clear_at, clear_at)

    # -- what to do

    def orders(self, now: float, stopped: Callable[[MirrorPartition], bool]) -> list[Order]:
        """Whatever can be done now; it is taken as done. What has `stopped` is given to nobody."""
        if self._at_rest:
            return []
        self._at_rest = True
        taken: dict[int, list[MirrorPartition]] = defaultdict(list)
        given: dict[tuple[int, float], list[CopyPartition]] = defaultdict(list)
        held = Counter(place.holder for place in self._places.values() if place.holder is not None)
        for key, place in self._places.items():
            lane = self._lane_for(place, held, now) if place.wanted else None
            if not place.at_rest:
                self._at_rest = False
            if place.holder is not None:
                unwanted = not place.wanted or place.recalled
                moves = unwanted or (lane is not None and lane != place.holder)
                if moves and not place.leaving:
                    place.leaving = True
                    taken[place.holder].append(key)
            elif lane is not None and now >= place.free_at and not stopped(key):
                place.holder = lane
                held[lane] += 1
                given[lane, max(place.clear_at - now, 0.0)].append(place.copy)
        return [
            *(Take(lane=lane, partitions=tuple(keys)) for lane, keys in taken.items()),
            *(
                Give(lane=lane, copies=tuple(copies), clear_in_s=clear_in_s)
                for (lane, clear_in_s), copies in given.items()
            ),
        ]

    def _lane_for(self, place: _Place, held: Counter[int], now: float) -> int | None:
        """Where it belongs now; None: nowhere yet, or it stays where it is."""
        home = self._lanes[place.home]
        if home.up:
            settled = place.holder in (None, place.home) or now - home.since >= HOME_AFTER_S
            return place.home if settled else None
        if place.holder is not None or now - home.since < AWAY_LIMIT_S:
            return None
        up = [lane for lane, state in self._lanes.items() if state.up]
        return min(up, key=lambda lane: (held[lane], lane), default=None)
