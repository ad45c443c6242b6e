"""What this run is to each of its links: active, standing by, or seeking; and the preparation of those that are ours.

    seeking ──▶ standby ──▶ active ──▶ prepared (observed again, planned, its topics made)
       ▲ ▲─────────┘           │
       └───────────────────────┘  the same member, in this generation or the next: nobody else was active, all goes on

Owns the elections. Must not know lanes: it tells what happens as events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from heliograph.controller.clusters import Clusters
from heliograph.controller.drivership import Active, Drivership, Role, Seeking, Standby, group_of
from heliograph.controller.plan import Plan
from heliograph.controller.preparation import prepare
from heliograph.model.errors import ClusterUnreachable
from heliograph.model.events import Event

TRY_AGAIN_S = 5.0
TOLD_AFTER_S = 3.0

log = logging.getLogger("heliograph")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A link is ours, and ready."""

    link: str
    todo: Plan


@dataclass(frozen=True, slots=True)
class StoodDown:
    """Another run is the link's active driver, or may have been: lanes must let go of its partitions."""

    link: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A link could not be prepared for a reason that no further try mends."""

    problem: BaseException


RoleEvent = Prepared | StoodDown | Failed


class LinkRoles:
    """`cluster_ids` by link: source, target. `on_event` is called in the event loop."""

    def __init__(
        self,
        clusters: Clusters,
        cluster_ids: dict[str, tuple[str, str]],
        on_event: Callable[[RoleEvent], None],
        make_drivership: Callable[..., Drivership] = Drivership,
    ) -> None:
        self.roles: dict[str, Role] = {link: Seeking() for link in cluster_ids}
        self._clusters = clusters
        self._on_event = on_event
        self._terms: dict[str, Active] = {}  # of the links that are ours
        self._mirrored: dict[str, set[str]] = {link: set() for link in cluster_ids}  # target topics
        self._ready: set[str] = set()  # prepared, and not withdrawn since
        self._granted: frozenset[str] = frozenset()  # replaced, never changed: other threads read it
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._telling: dict[str, asyncio.TimerHandle] = {}  # of links that nobody is known to drive
        groups = {
            link: (clusters.target(link), group_of(link, source_id))
            for link, (source_id, _) in cluster_ids.items()
        }
        self._drivership = make_drivership(
            groups, self._changed, {link: clusters.fingerprint(link) for link in groups}
        )

    def start(self) -> None:
        self._drivership.start()

    def grants(self) -> dict[str, float]:
        """How long each link is ours for certain, in seconds; 0 until `grant`. May be called from any thread."""
        lasts = (
            self._drivership.grants()
        )  # first: what is withdrawn meanwhile must not be granted by an older look
        granted = self._granted
        return {link: lasts_s if link in granted else 0.0 for link, lasts_s in lasts.items()}

    def grant(self, link: str) -> None:
        """Whatever lanes held of this link before was taken from them: they may have leases now. Not of a link that
        was withdrawn since it was told as prepared."""
        if link in self._ready:
            self._granted = self._granted | {link}

    @property
    def standing_by(self) -> bool:
        return any(isinstance(role, Standby) for role in self.roles.values())

    async def aclose(self, *, leave: bool = True) -> None:
        """Step down: with `leave` a standby takes over at once, else when the last lease is over."""
        for link in self.roles:
            self._drop_preparation(link)
            self._tell_nothing(link)
        await self._drivership.aclose(leave=leave)

    def _changed(self, link: str, role: Role) -> None:
        self.roles[link] = role
        match role:
            case Active():
                self._elected(link, role)
            case Standby(active=active, alike=alike):
                _tell_standby(link, active or "another driver", alike=alike)
                self._terms.pop(link, None)
                self._withdraw(link)
            case Seeking():
                self._tell_later(link)
                return
        self._tell_nothing(link)

    def _tell_later(self, link: str) -> None:
        """What lasts for a moment only, a coordinator that is being made, say, is no trouble. Trouble whose words
        change all the time lasts, too."""
        if link not in self._telling:
            loop = asyncio.get_running_loop()
            self._telling[link] = loop.call_later(TOLD_AFTER_S, self._tell_of, link)

    def _tell_of(self, link: str) -> None:
        del self._telling[link]
        match self.roles[link]:
            case Seeking(problem=problem) if problem is not None:
                log.warning("link %s: %s", link, problem, extra={"event": Event.ELECTION})

    def _tell_nothing(self, link: str) -> None:
        timer = self._telling.pop(link, None)
        if timer is not None:
            timer.cancel()

    def _elected(self, link: str, term: Active) -> None:
        before, self._terms[link] = self._terms.get(link), term
        if before is not None and _carries_on(before, term):
            return
        words = "link %s: this run is the active driver (generation %d)"
        log.info(words, link, term.generation, extra={"event": Event.ACTIVE})
        self._withdraw(link)
        task = asyncio.get_running_loop().create_task(self._prepare(link))
        self._preparing[link] = task
        task.add_done_callback(self._prepared)

    def _withdraw(self, link: str) -> None:
        """Others are active, or may have been since we were: what an earlier generation began knows nothing of them."""
        self._ready.discard(link)
        self._granted = self._granted - {link}
        self._drop_preparation(link)
        self._on_event(StoodDown(link))

    def _drop_preparation(self, link: str) -> None:
        task = self._preparing.pop(link, None)
        if task is not None:
            task.cancel()

    async def _prepare(self, link: str) -> None:
        while True:
            try:
                todo = await prepare(self._clusters, link, self._mirrored[link])
            except ClusterUnreachable as problem:
                log.warning("link %s: %s", link, problem.message, extra={"event": Event.CLUSTER_AWAY})
                await asyncio.sleep(TRY_AGAIN_S)
            else:
                self._ready.add(link)
                self._mirrored[link] |= {copy.spec.partition.target_topic for copy in todo.copies}
                self._on_event(Prepared(link, todo))
                return

    def _prepared(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._on_event(Failed(problem))


def _carries_on(before: Active, now: Active) -> bool:
    """Nobody else can have been active in between: who is dropped from a group comes back as another member."""
    return now.member == before.member and now.generation in (before.generation, before.generation + 1)


def _tell_standby(link: str, active: str, *, alike: bool) -> None:
    said = f"link {link}: this run stands by and takes over by itself; {active} is active"
    if alike:
        log.info("%s", said, extra={"event": Event.STANDBY})
    else:
        words = "%s, and its config has other topics or names for the link: what only ours has is not copied until then"
        log.warning(words, said, extra={"event": Event.OTHER_CONFIG})
