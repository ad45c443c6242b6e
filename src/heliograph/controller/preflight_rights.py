"""Preflight, the rights: what brokers say this client may do, against what a link needs.

Owns the least rights of a link (docs/SECURITY.md lists them). What a broker does not say is a warning, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right
from heliograph.cluster.rights import (
    TopicRights,
    read_cluster_rights,
    read_topic_rights,
    try_creating,
    try_heartbeat,
    try_reading_configs,
    try_reading_producers,
)
from heliograph.controller.finding import Finding, Side, listed
from heliograph.controller.snapshot import LinkSnapshot, SourceTopic
from heliograph.controller.topic_config import TargetShape
from heliograph.controller.verdict import build_phase, creation_shape, shape_for
from heliograph.model.errors import BrokerRefused
from heliograph.model.events import Severity
from heliograph.model.link import Link
from heliograph.model.states import StopReason
from heliograph.model.topic_patterns import matches_any
from heliograph.wire.error_codes import ErrorCode

SOURCE_RIGHTS = (Right.READ, Right.DESCRIBE, Right.DESCRIBE_CONFIGS)
TARGET_RIGHTS = (Right.READ, Right.WRITE, Right.DESCRIBE, Right.DESCRIBE_CONFIGS)
# Who has all of these is a super user, or on a cluster that checks no rights at all.
ALL_CLUSTER_RIGHTS = frozenset(
    {
        Right.CREATE,
        Right.ALTER,
        Right.DESCRIBE,
        Right.CLUSTER_ACTION,
        Right.DESCRIBE_CONFIGS,
        Right.ALTER_CONFIGS,
    }
)
DENIED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
UNSEEN = DENIED | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}  # the second: it is gone, or was never there
# An unknown config is left out when the topic is created, with a warning.
WOULD_CREATE = frozenset({0, ErrorCode.TOPIC_ALREADY_EXISTS})
CREATABLE = WOULD_CREATE | {ErrorCode.INVALID_CONFIG}
UNSAID = "see that they are granted: docs/SECURITY.md lists them"
_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)


async def check_source(side: Side, snapshot: LinkSnapshot) -> list[Finding]:
    seen = {topic.name for topic in snapshot.sources}
    rights = await read_topic_rights(side.client, seen | set(_named_but_unseen(snapshot.link, seen)))
    return judge_topics(side, SOURCE_RIGHTS, rights)


def _named_but_unseen(link: Link, seen: Collection[str]) -> list[str]:
    """Patterns that look like a topic's name and match nothing: a topic that may not be seen is not in any list."""
    return [
        pattern
        for pattern in link.topics
        if _PLAIN_NAME.fullmatch(pattern) and not any(matches_any([pattern], name) for name in seen)
    ]


def judge_topics(side: Side, needed: Iterable[Right], rights: Mapping[str, TopicRights]) -> list[Finding]:
    """One finding for each right that some topics lack, and one for all topics of which nothing is said."""
    hidden = _denied({name: found.error for name, found in rights.items()})
    said = {name: found.held for name, found in rights.items() if found.held is not None}
    findings: list[Finding] = []
    for right in needed:
        lacking = {name for name, held in said.items() if right not in held}
        # Of a topic that may not be seen nothing more is known than that.
        findings += side.lacks(
            right, Resource.TOPIC, lacking.union(hidden if right is Right.DESCRIBE else ())
        )
    unsaid = [name for name, found in rights.items() if found.held is None and found.error not in UNSEEN]
    if unsaid:
        words = f"its brokers do not say which rights this client has on topic {listed(unsaid)}: not checked"
        findings.append(side.find(Severity.WARNING, words, UNSAID, unsaid))
    return findings


async def check_target(side: Side, snapshot: LinkSnapshot, groups: Iterable[str]) -> list[Finding]:
    """`groups`: those that the link's driver is a member of."""
    rights = await read_topic_rights(side.client, snapshot.targets)
    findings = judge_topics(side, TARGET_RIGHTS, rights)
    findings += _check_built_topics(side, snapshot, rights)
    findings += await _check_new_topics(side, snapshot)
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    barred = [group for group in groups if await try_heartbeat(side.client, group) == denied]
    why = "no driver of this link can be elected"
    findings += side.lacks(Right.READ, Resource.GROUP, barred, consequence=why)
    if snapshot.state_lasts_ms is None:
        why = "producer.id.expiration.ms cannot be read and is taken for 24 h"
        findings += side.lacks(
            Right.DESCRIBE_CONFIGS, Resource.CLUSTER, severity=Severity.WARNING, consequence=why
        )
    return findings


def _check_built_topics(
    side: Side, snapshot: LinkSnapshot, rights: Mapping[str, TopicRights]
) -> list[Finding]:
    """Compacted topics that are being built are given other settings by and by. Of those that are not there yet no
    broker tells."""
    building = [
        snapshot.link.target_topic(topic.name)
        for topic in snapshot.sources
        if build_phase(snapshot, topic) is not None
    ]
    lacking = [
        name
        for name in building
        if name in rights and (held := rights[name].held) is not None and Right.ALTER_CONFIGS not in held
    ]
    why = "the compacted topic is built with settings of its own first, and then given the source's"
    return side.lacks(Right.ALTER_CONFIGS, Resource.TOPIC, lacking, consequence=why)


async def _check_new_topics(side: Side, snapshot: LinkSnapshot) -> list[Finding]:
    """Rights on topics that are not there: brokers do not list them, but refuse for want of them all the same."""
    new = {
        name: topic
        for topic in snapshot.sources
        if (name := snapshot.link.target_topic(topic.name)) not in snapshot.targets
    }
    if not new:
        return []
    client = side.client
    lacking: dict[Right, list[str]] = {
        Right.DESCRIBE: _denied(
            {n: found.error for n, found in (await read_topic_rights(client, new)).items()}
        ),
        Right.READ: _denied(await try_reading_producers(client, new)),
        Right.DESCRIBE_CONFIGS: _denied(await try_reading_configs(client, new)),
    }
    findings = [each for right, names in lacking.items() for each in side.lacks(right, Resource.TOPIC, names)]
    if snapshot.link.create_topics:
        findings += await _check_creation(side, snapshot, new)
    if not await has_all_rights(client):
        words = f"whether this client may write topic {listed(new)} cannot be known before they are created"
        findings.append(side.find(Severity.WARNING, words, "grant WRITE on them, if that is not done", new))
    return findings


def _denied(codes: Mapping[str, int]) -> list[str]:
    return [name for name, code in codes.items() if code in DENIED]


async def _check_creation(
    side: Side, snapshot: LinkSnapshot, new: Mapping[str, SourceTopic]
) -> list[Finding]:
    answers = await try_creating(side.client, {name: _shape(snapshot, topic) for name, topic in new.items()})
    denied = _denied({name: code for name, (code, _) in answers.items()})
    findings = side.lacks(
        Right.CREATE, Resource.TOPIC, denied, consequence="it is not there and must be created"
    )
    refused = {name for name, (code, _) in answers.items() if code not in DENIED | WOULD_CREATE}
    unbuilt = await _not_to_be_built(side, snapshot, {name: new[name] for name in refused}, answers)
    findings += unbuilt
    stopped = {name for found in unbuilt for name in found.names}
    others: dict[str, list[str]] = {}
    for name, (code, words) in answers.items():
        if code not in CREATABLE | DENIED and name not in stopped:
            others.setdefault(f"{ErrorCode.name_of(code)}: {words}", []).append(name)
    for why, names in others.items():
        words = f"topic {listed(names)} would not be created: {why}"
        findings.append(side.find(Severity.WARNING, words, "create it on the target, or exclude it", names))
    return findings


async def _not_to_be_built(
    side: Side,
    snapshot: LinkSnapshot,
    refused: Mapping[str, SourceTopic],
    answers: Mapping[str, tuple[int, str]],
) -> list[Finding]:
    """Compacted topics that would be created as they are to be in the end, but not with the settings that they are
    built with: a policy of the cluster's, or a service's limits."""
    built = {
        name: topic
        for name, topic in refused.items()
        if build_phase(snapshot, topic) is not None and not ErrorCode.passes(answers[name][0])
    }
    if not built:
        return []
    plain = {name: _shape_of(shape_for(snapshot, topic)) for name, topic in built.items()}
    accepted = [
        name for name, (code, _) in (await try_creating(side.client, plain)).items() if code in WOULD_CREATE
    ]
    findings = []
    for name in accepted:
        code, words = answers[name]
        told = f"{ErrorCode.name_of(code)}: {words}" if words else ErrorCode.name_of(code)
        message = (
            f"the compacted topic {name} cannot be built: its brokers refuse the settings for that: {told}"
        )
        settings = ", ".join(
            f"{key}={value}" for key, value in _build_settings(snapshot, built[name]).items()
        )
        hint = f"let the cluster (create.topic.policy.class.name, or the service's limits) accept {settings}"
        found = side.find(Severity.ERROR, message, hint, [name])
        findings.append(replace(found, reason=StopReason.BUILD))
    return findings


def _build_settings(snapshot: LinkSnapshot, topic: SourceTopic) -> dict[str, str]:
    """Those that a topic is created with and does not keep."""
    final = shape_for(snapshot, topic).configs
    return {
        key: value
        for key, value in creation_shape(snapshot, topic).configs.items()
        if final.get(key) != value
    }


def _shape(snapshot: LinkSnapshot, topic: SourceTopic) -> tuple[int, int, Mapping[str, str]]:
    return _shape_of(creation_shape(snapshot, topic))


def _shape_of(shape: TargetShape) -> tuple[int, int, Mapping[str, str]]:
    return shape.partitions, shape.replication_factor, shape.configs


async def has_all_rights(client: ClusterClient) -> bool:
    try:
        held = await read_cluster_rights(client)
    except BrokerRefused:
        return False
    return held is not None and held >= ALL_CLUSTER_RIGHTS
