"""Changes of configs that a target does not take: what is said of them, once for all topics of which the same is to be
said.

Records are copied all the same. The mirror tells of a change that was refused (configs_in_step.py), `plan` of one that
would be: it has a broker look at it, and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.rights import try_changing_configs
from heliograph.controller.finding import listed
from heliograph.controller.plan import ChangeConfigs
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.wire.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedConfigs:
    """Of one target topic these configs, for this reason; `words` are the broker's."""

    topic: str
    names: tuple[str, ...]
    code: int
    words: str

    @property
    def cause(self) -> tuple[object, ...]:
        """What is the same of several topics. Who may not change a topic's configs may change none of them."""
        return (self.code,) if ErrorCode.denies(self.code) else (self.code, self.words, self.names)


def refused_by(topic: str, names: Iterable[str], problem: BrokerRefused) -> RefusedConfigs:
    words = problem.message.removeprefix(f"topic {topic}: ")  # it may be said of several
    return RefusedConfigs(topic=topic, names=tuple(names), code=problem.code, words=words)


def not_known(topic: str, names: Iterable[str]) -> RefusedConfigs:
    return RefusedConfigs(
        topic=topic, names=tuple(names), code=ErrorCode.INVALID_CONFIG, words="its brokers do not know it"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A sentence, and the line that mends it."""

    message: str
    hint: str


def tellings(properties: ClientProperties, refusals: Iterable[RefusedConfigs]) -> Iterator[Telling]:
    """`properties`: of the target, for the line that grants a right."""
    groups: defaultdict[tuple[object, ...], list[RefusedConfigs]] = defaultdict(list)
    for each in refusals:
        groups[each.cause].append(each)
    for group in groups.values():
        yield _telling(properties, group)


def _telling(properties: ClientProperties, group: Sequence[RefusedConfigs]) -> Telling:
    first, topics = group[0], sorted({each.topic for each in group})
    of = f"of target topic{'s' if len(topics) > 1 else ''} {listed(topics)}"
    code = ErrorCode.name_of(first.code)
    if ErrorCode.denies(first.code):
        message = f"configs {of} do not follow the source: they may not be changed ({code})"
        return Telling(
            message=message,
            hint=grant_line(properties, Right.ALTER_CONFIGS, Resource.TOPIC, topics),
        )
    quoted = ", ".join(f'"{name}"' for name in first.names)
    leave_out = f"topic_configs: {{exclude: [{quoted}]}}"
    by_policy = "let the cluster (alter.config.policy.class.name) accept it, or leave it out: "
    return Telling(
        message=f"{', '.join(first.names)} {of} does not follow the source: {first.words}",
        hint=by_policy + leave_out if first.code == ErrorCode.POLICY_VIOLATION else leave_out,
    )


async def warn_of_refusals(client: ClusterClient, changes: Sequence[ChangeConfigs]) -> list[str]:
    """Of changes of one link that its target would not take, a sentence for each cause; for `plan`."""
    if not changes:
        return []
    link = changes[0].link
    try:
        answers = await try_changing_configs(client, {each.topic: each.changes for each in changes})
    except (RequestFailed, ProtocolError) as problem:
        return [
            f"link {link}: whether configs of target topics can be changed is not known: {problem.message}"
        ]
    refused = [
        RefusedConfigs(topic=each.topic, names=tuple(each.changes), code=code, words=_words(code, said))
        for each in changes
        for code, said in [answers.get(each.topic, (0, ""))]
        if code
    ]
    return [
        f"link {link}: {each.message} (hint: {each.hint})" for each in tellings(client.properties, refused)
    ]


def _words(code: int, said: str) -> str:
    name = ErrorCode.name_of(code)
    return f"{name} ({said})" if said else name
