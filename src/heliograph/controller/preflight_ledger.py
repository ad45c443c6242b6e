"""Preflight, the topics that Heliograph keeps on a target cluster (docs/LEDGER.md): whether they can be made, read and
written.

Owns what a link lacks for them, and what does not work without. Never an error for topics that are copied from their
start: those need no ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from heliograph.cluster.grants import Resource, Right, own_topics_grant_line
from heliograph.cluster.own_topics import CONFIGS, replication_factor
from heliograph.cluster.rights import TopicRights, read_topic_rights, try_creating, try_reading_producers
from heliograph.controller.finding import Finding, Side, listed
from heliograph.controller.preflight_rights import CREATABLE, DENIED, has_all_rights
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.model.events import Severity
from heliograph.model.ledger import COMMANDS_TOPIC, EVENTS_TOPIC, LEDGER_TOPIC, OWN_TOPICS
from heliograph.model.policy import EARLIEST
from heliograph.wire.error_codes import ErrorCode

# READ or WRITE includes DESCRIBE.
NEEDED = (Right.READ, Right.WRITE)
CONSEQUENCES = {
    LEDGER_TOPIC: "stops and pauses are forgotten when the mirror is started again, and only start: earliest works",
    COMMANDS_TOPIC: "commands of heliograph topics are not carried out",
    EVENTS_TOPIC: "events are in the run's log only",
}


@dataclass(slots=True, kw_only=True)
class OwnTopicRights:
    """`lacking`: by topic, the rights that are missing. `unmade`: by topic, why it would not be made, though it may be.
    `unsaid`: of which it is not known whether they can be read and written."""

    lacking: dict[str, set[Right]] = field(default_factory=dict)
    unmade: dict[str, str] = field(default_factory=dict)
    unsaid: set[str] = field(default_factory=set)

    def lacks(self, topics: Collection[str], *rights: Right) -> None:
        for topic in topics:
            self.lacking.setdefault(topic, set()).update(rights)


async def check_ledger(side: Side, snapshot: LinkSnapshot) -> list[Finding]:
    return judge_ledger(side, snapshot, await _read(side))


async def _read(side: Side) -> OwnTopicRights:
    rights = await read_topic_rights(side.client, OWN_TOPICS)
    found = _of_those_there(rights)
    hidden = {topic for topic, said in rights.items() if said.error in DENIED}
    absent = {topic for topic, said in rights.items() if said.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    found.lacks(hidden, *NEEDED)  # with either of them it could be seen
    if hidden or (absent and not await has_all_rights(side.client)):
        await _try(side, absent, hidden, found)
    return found


def _of_those_there(rights: Mapping[str, TopicRights]) -> OwnTopicRights:
    found = OwnTopicRights()
    for topic, said in rights.items():
        if said.error:
            continue
        if said.held is None:
            found.unsaid.add(topic)
        elif not said.held.issuperset(NEEDED):
            found.lacks([topic], *(right for right in NEEDED if right not in said.held))
    return found


async def _try(side: Side, absent: Collection[str], hidden: Collection[str], found: OwnTopicRights) -> None:
    """Of topics that are not there, or may not be seen: rights are refused all the same. Nothing is made."""
    factor = await replication_factor(side.client)
    shapes = {topic: (1, factor, CONFIGS[topic]) for topic in (*absent, *hidden)}
    for topic, (code, words) in (await try_creating(side.client, shapes)).items():
        if code in DENIED:
            found.lacks([topic], Right.CREATE)
        elif code not in CREATABLE:
            found.unmade[topic] = f"{ErrorCode.name_of(code)}: {words}"
    for topic, code in (await try_reading_producers(side.client, absent)).items():
        if code in DENIED:
            found.lacks([topic], Right.READ)
    found.unsaid.update(absent)


def judge_ledger(side: Side, snapshot: LinkSnapshot, found: OwnTopicRights) -> list[Finding]:
    findings: list[Finding] = []
    if found.lacking:
        consequences = "; ".join(CONSEQUENCES[topic] for topic in CONSEQUENCES if topic in found.lacking)
        words = f"{_missing(found.lacking)}: {consequences}; all else is mirrored"
        findings.append(_finding(side, Severity.WARNING, words, found.lacking, sorted(found.lacking)))
        findings += _judge_starts(side, snapshot, found.lacking)
    for topic, why in sorted(found.unmade.items()):
        words = f"topic {topic} would not be created: {why}: {CONSEQUENCES[topic]}"
        hint = "create it on the target: one partition, with the configs of docs/LEDGER.md"
        findings.append(side.find(Severity.WARNING, words, hint, [topic]))
    if found.unsaid and not found.lacking:
        words = f"whether this client may read and write topic {listed(found.unsaid)} is not known yet"
        hint = f"{own_topics_grant_line(side.client.properties)}  # if that is not done"
        findings.append(side.find(Severity.WARNING, words, hint, found.unsaid))
    return findings


def _judge_starts(
    side: Side, snapshot: LinkSnapshot, lacking: Mapping[str, Collection[Right]]
) -> list[Finding]:
    """Where a topic begins that does not begin at its source's start stands in the ledger and nowhere else."""
    link = snapshot.link
    late = [topic.name for topic in snapshot.sources if link.policy_of(topic.name).start != EARLIEST]
    if LEDGER_TOPIC not in lacking or not late:
        return []
    of_ledger = {LEDGER_TOPIC: lacking[LEDGER_TOPIC]}
    words = (
        f"{_missing(of_ledger)}: topic {listed(late)} has a start other than earliest, which needs the ledger"
    )
    names = sorted(link.target_topic(name) for name in late)
    return [_finding(side, Severity.ERROR, words, of_ledger, names)]


def _finding(
    side: Side,
    severity: Severity,
    words: str,
    lacking: Mapping[str, Collection[Right]],
    names: Collection[str],
) -> Finding:
    """`names`: the target topics that it is about. One for all rights: one line grants them."""
    hint = own_topics_grant_line(side.client.properties)
    first = min(right for rights in lacking.values() for right in rights)
    return replace(side.find(severity, words, hint, names), right=first, resource=Resource.TOPIC)


def _missing(lacking: Mapping[str, Collection[Right]]) -> str:
    """CREATE, READ, WRITE on topic a, b is missing; topics that lack the same are named together."""
    alike: dict[str, list[str]] = {}
    for topic in sorted(lacking):
        names = ", ".join(sorted(right.name for right in lacking[topic]))
        alike.setdefault(names, []).append(topic)
    return "; ".join(f"{names} on topic {listed(topics)} is missing" for names, topics in alike.items())
