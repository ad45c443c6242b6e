"""What operators are told of topics' configs while a mirror runs: each thing once, until it changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from heliograph.cluster.properties import ClientProperties
from heliograph.controller.config_refusals import RefusedConfigs, tellings
from heliograph.controller.config_verdict import Drift, config_shown
from heliograph.controller.finding import listed
from heliograph.controller.topic_config import configs_line
from heliograph.model.clock import time_of_day
from heliograph.model.events import Event
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox

Refused = tuple[str, tuple[object, ...], str]  # link, cause, target topic
Topics = tuple[str, str]  # source and target
Drifts = Mapping[str, Drift]  # by name of the config


class ConfigsTold:
    """Of all links of a run, however often they are taken over."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._drift: dict[tuple[str, str], Drifts] = {}  # by link and target topic
        self._refused: set[Refused] = set()
        self._trouble: dict[str, str] = {}  # by link

    def changed(
        self,
        link: str,
        topics: Topics,
        changes: Mapping[str, str | None],
        before: Mapping[str, str | None],
    ) -> None:
        shown = ", ".join(
            f"{name} {config_shown(before[name])} -> {config_shown(value)}" for name, value in changes.items()
        )
        words = f"configs follow topic {topics[0]} of the source: {shown}"
        self._of_topic(Event.CONFIGS_CHANGED, link, topics, words)

    def drift(self, link: str, shown: Mapping[Topics, Drifts], servers: str, *, written: bool) -> None:
        """As it is now, also where there is none any more. Topics of which the same is to be said are told together.
        `servers`: how tools get into the target. `written`: a ledger says what the mirror has set."""
        new: defaultdict[tuple[tuple[str, Drift], ...], list[Topics]] = defaultdict(list)
        for topics, drift in shown.items():
            if drift and drift != self._drift.get((link, topics[1])):
                new[tuple(drift.items())].append(topics)
        self._drift |= {(link, topics[1]): drift for topics, drift in shown.items()}
        for items, of in new.items():
            self._tell_drift(link, of, dict(items), servers, written=written)

    def _tell_drift(
        self, link: str, of: Sequence[Topics], drift: Drifts, servers: str, *, written: bool
    ) -> None:
        differing = ", ".join(f"{name}={each}" for name, each in drift.items())
        why = "somebody else has set it" if written else "no ledger says who has set it"
        words = f"configs differ from the source's, and are kept, because {why}: {differing}"
        first = of[0][1]
        leave_out = ", ".join(f'"{name}"' for name in drift)
        line = configs_line(servers, first, {name: each.source for name, each in drift.items()})
        hint = f"to leave them to the target: topic_configs: {{exclude: [{leave_out}]}}; to have them follow: {line}"
        if len(of) == 1:
            self._of_topic(Event.CONFIGS_DRIFT, link, of[0], words, hint)
        else:
            named = listed(topics[1] for topics in of)
            self._outbox.tell(
                Event.CONFIGS_DRIFT, f"link {link}: topics {named}: {words}", hint=hint, link=link
            )

    def refused(self, link: str, properties: ClientProperties, refusals: Iterable[RefusedConfigs]) -> None:
        """`properties`: of the target."""
        new = [each for each in refusals if (link, each.cause, each.topic) not in self._refused]
        self._refused |= {(link, each.cause, each.topic) for each in new}
        for each in tellings(properties, new):
            words = f"link {link}: {each.message}; records are copied all the same"
            self._outbox.tell(Event.CONFIGS_REFUSED, words, hint=each.hint, link=link)

    def settled(self, link: str, topics: Collection[str]) -> None:
        """Nothing of these target topics' configs waits to be changed."""
        self._refused = {each for each in self._refused if each[0] != link or each[2] not in topics}

    def unread(self, link: str, cluster: str, problems: Mapping[str, str]) -> None:
        """Configs of these topics of the source, for a while now."""
        words = (
            f"link {link}: the configs of topics {listed(problems)} of cluster {cluster!r} cannot be read"
            f" ({sorted(set(problems.values()))[0]}): if they are changed now, the target's do not follow"
        )
        self._outbox.tell(Event.CONFIGS_UNREAD, words, link=link)

    def trouble(self, link: str, message: str | None) -> None:
        """None: there is none any more."""
        if message is None:
            self._trouble.pop(link, None)
        elif self._trouble.get(link) != message:
            self._trouble[link] = message
            words = f"link {link}: configs of topics are not kept in step for now: {message}"
            self._outbox.tell(Event.CLUSTER_AWAY, words, link=link)

    def _of_topic(
        self, code: Event, link: str, topics: Topics, message: str, hint: str | None = None
    ) -> None:
        self._outbox.put(
            Occurrence(
                at=time_of_day(),
                code=code,
                message=f"link {link}: topic {topics[1]}: {message}",
                hint=hint,
                link=link,
                source_topic=topics[0],
                target_topic=topics[1],
            )
        )
