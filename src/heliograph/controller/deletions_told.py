"""What operators are told of target topics whose source topics are gone: that they are deleted, or why they are not.

Each reason once for each topic. What every look finds is not told, nor what time mends; what brokers of the source say
is told when they have been saying so for as long as a deletion waits: one that lags is no news.
"""

from __future__ import annotations

from collections.abc import Collection

from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.cluster.tool_servers import tool_servers
from heliograph.controller import deletion_guards
from heliograph.controller.clusters import Clusters
from heliograph.controller.deletion_guards import AT_SOURCE, Facts, Guard, Held
from heliograph.controller.finding import listed
from heliograph.controller.recorded import MirroredTopic
from heliograph.controller.topic_config import deletion_line
from heliograph.model.clock import Clock, time_of_day
from heliograph.model.errors import BrokerRefused, HeliographError
from heliograph.model.events import Event
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox
from heliograph.wire.error_codes import ErrorCode

_QUIET = frozenset({Guard.WANTED, Guard.HELD_BY_US, Guard.FEW, Guard.UNKNOWN_FOR})
# What stays so: it is told by the run that has let the topic go, and not by every run that comes.
_LASTING = frozenset({Guard.IDS, Guard.CREATED, Guard.NOT_KEPT, Guard.SAME_TARGET})


class DeletionsTold:
    def __init__(self, link: str, clusters: Clusters, outbox: Outbox, clock: Clock) -> None:
        self._name = link
        self._link = clusters.link(link)
        self._clusters = clusters
        self._outbox = outbox
        self._clock = clock
        self._told: set[tuple[str, str]] = set()
        self._since: dict[tuple[str, Guard], float] = {}
        self._many = 0

    def deleted(self, topic: MirroredTopic) -> None:
        words = (
            f"topic {topic.target_topic} (id {topic.target_topic_id}) is deleted: cluster {self._link.source!r} has no"
            f" topic {topic.source_topic} (id {topic.source_topic_id}) any more"
        )
        self._tell(Event.TOPIC_DELETED, topic, words)

    def held(self, topic: MirroredTopic, held: Held, *, let_go: bool) -> None:
        """`let_go`: by this run."""
        if held.guard in _QUIET or (held.guard in _LASTING and not let_go):
            return
        now = self._clock()
        since = self._since.setdefault((topic.target_topic, held.guard), now)
        if held.guard in AT_SOURCE and now - since < deletion_guards.UNKNOWN_FOR_S:
            return
        hint = None
        if held.guard is Guard.RIGHTS:
            source = self._clusters.source(self._name)
            hint = grant_line(source.properties, Right.DESCRIBE, Resource.TOPIC, (topic.source_topic,))
        self._not_deleted(topic, held.guard, held.why, hint)

    def failed(self, topic: MirroredTopic, problem: HeliographError) -> None:
        """The target does not say what is to be known, or refuses the deletion."""
        code = problem.code if isinstance(problem, BrokerRefused) else 0
        hint = problem.hint or None
        if ErrorCode.denies(code):
            target = self._clusters.target(self._name)
            hint = grant_line(target.properties, Right.DELETE, Resource.TOPIC, (topic.target_topic,))
        elif code == ErrorCode.TOPIC_DELETION_DISABLED:
            hint = "set delete.topic.enable=true on the target's brokers"
        self._not_deleted(topic, problem.message, problem.message, hint)

    def unasked(self, problem: HeliographError) -> None:
        """The source, or the ledger, cannot be asked."""
        if ("", problem.message) not in self._told:
            self._told.add(("", problem.message))
            words = f"link {self._name}: topics that are gone at the source stay for now: {problem.message}"
            self._outbox.tell(Event.DELETION_HELD, words, hint=problem.hint or None, link=self._name)

    def many(self, held: Collection[Facts], why: str) -> None:
        """That there are too many; once, and again when there are more of them. None: not any more."""
        if len(held) > self._many:
            names = sorted(each.topic.target_topic for each in held)
            servers = tool_servers(self._clusters.target(self._name).properties)
            self._outbox.tell(
                Event.DELETION_HELD,
                f"link {self._name}: no topic is deleted until there are fewer: {why}: {listed(names)}",
                hint=f"to keep them, set on_source_delete: keep for link {self._name}; where they are to go all the"
                f" same: {deletion_line(servers, names[0])}",
                link=self._name,
            )
        self._many = max(self._many, len(held)) if held else 0

    def _not_deleted(self, topic: MirroredTopic, what: str, why: str, hint: str | None) -> None:
        if (topic.target_topic, what) not in self._told:
            self._told.add((topic.target_topic, what))
            gone = f"although cluster {self._link.source!r} has no topic {topic.source_topic} any more"
            self._tell(Event.DELETION_HELD, topic, f"topic {topic.target_topic} stays, {gone}: {why}", hint)

    def _tell(self, code: Event, topic: MirroredTopic, words: str, hint: str | None = None) -> None:
        self._outbox.put(
            Occurrence(
                at=time_of_day(),
                code=code,
                message=f"link {self._name}: {words}",
                hint=hint,
                link=self._name,
                source_topic=topic.source_topic,
                target_topic=topic.target_topic,
            )
        )
