"""Preflight, the brokers: each can be reached from here, speaks what we need, and answers what a copier asks; and the
cluster's groups can work.

Owns which APIs a link needs on each side. Must not know rights: those are preflight_rights.py's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest, DescribeProducersRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.list_offsets import LATEST, OURSELVES
from heliograph.cluster.log_reads import list_offset, read_producer
from heliograph.cluster.messages import common_version
from heliograph.cluster.offsets_topic import OFFSETS_TOPIC, REPLICATION_FACTOR, read_offsets_topic
from heliograph.cluster.topic_witnesses import BY_ID_VERSIONS
from heliograph.controller.finding import Finding, Side, listed
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.events import Severity
from heliograph.model.hints import SUPPORTED_VERSIONS
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FETCH_ISOLATED_FROM, FETCH_VERSIONS
from heliograph.wire.produce import PRODUCE_VERSIONS

BROKERS_AT_ONCE = 16
FETCH_ON_TARGETS = range(FETCH_ISOLATED_FROM, FETCH_VERSIONS.stop)
UNREACHED = "lanes must reach every broker by the host and port it advertises: see its advertised.listeners"
NO_OWNER = -1  # a producer id that nobody has


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    name: str
    api_key: int
    versions: range


def _need(request: Any) -> Need:
    name = str(request.name).removesuffix("Request")
    return Need(
        name=name,
        api_key=int(request.API_KEY),
        versions=range(request.min_version, request.max_version + 1),
    )


# Configs are not needed: a source that cannot tell them gets a target with default ones (topic_config.py).
SOURCE_NEEDS = (
    Need(name="Fetch", api_key=ApiKey.FETCH, versions=FETCH_VERSIONS),
    *map(_need, (MetadataRequest, ListOffsetsRequest)),
)
TARGET_NEEDS = (
    Need(name="Fetch", api_key=ApiKey.FETCH, versions=FETCH_ON_TARGETS),
    *map(_need, (MetadataRequest, ListOffsetsRequest, DescribeConfigsRequest)),
    Need(name="Produce", api_key=ApiKey.PRODUCE, versions=PRODUCE_VERSIONS),
    *map(_need, (DescribeProducersRequest, CreateTopicsRequest, FindCoordinatorRequest)),
    *map(_need, (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)),
    *map(_need, (OffsetCommitRequest, OffsetFetchRequest)),
)


# Of a source whose topics' deletions are followed.
ASKED_BY_ID = Need(name="Metadata by topic id", api_key=ApiKey.METADATA, versions=BY_ID_VERSIONS)


async def check_topic_ids(side: Side) -> list[Finding]:
    """Whether its brokers can be asked for topics by their ids; once for all of them."""
    nodes = sorted(side.client.metadata.brokers)
    answers = await at_most(
        BROKERS_AT_ONCE, [partial(_missing, side.client, node, (ASKED_BY_ID,)) for node in nodes]
    )
    if not any(isinstance(answer, list) and answer for answer in answers):
        return []
    words = (
        "its brokers cannot be asked for topics by their ids (Kafka before 3.1): on_source_delete: delete has no"
        " effect, and target topics whose source topics are gone are kept"
    )
    return [side.find(Severity.WARNING, words, f"set on_source_delete: keep for link {side.link}")]


async def check_brokers(side: Side, needs: tuple[Need, ...]) -> list[Finding]:
    """Raises the last failure when not one broker can be reached."""
    nodes = sorted(side.client.metadata.brokers)
    answers = await at_most(BROKERS_AT_ONCE, [partial(_missing, side.client, node, needs) for node in nodes])
    failures = [answer for answer in answers if isinstance(answer, RequestFailed | ProtocolError)]
    if failures and len(failures) == len(nodes):
        raise failures[-1]
    findings = [side.find(Severity.WARNING, failure.message, UNREACHED) for failure in failures]
    lacks = [answer for answer in answers if isinstance(answer, list) and answer]
    return findings + [side.find(Severity.ERROR, "; ".join(lack), SUPPORTED_VERSIONS) for lack in lacks]


async def _missing(
    client: ClusterClient, node: int, needs: tuple[Need, ...]
) -> list[str] | RequestFailed | ProtocolError:
    try:
        connection = await client.connection(node, CONTROL)
    except (RequestFailed, ProtocolError) as problem:
        return problem
    problems = []
    for need in needs:
        try:
            common_version(connection, need.api_key, need.name, need.versions)
        except BrokerRefused as refused:
            problems.append(refused.message)
    return problems


async def check_answers(side: Side, topics: Iterable[str]) -> list[Finding]:
    """Each broker that leads a partition of these topics is asked what a copier asks of a target before it appends."""
    questions = [
        partial(_refusal, side.client, where, question)
        for where in _one_for_each_leader(side.client, topics)
        for question in (Question.END, Question.PRODUCERS)
    ]
    refused: dict[tuple[Question, int], list[str]] = {}
    for question, where, code in filter(None, await at_most(BROKERS_AT_ONCE, questions)):
        refused.setdefault((question, code), []).append(str(where))
    return [
        side.find(
            # Leaders move all the time.
            Severity.WARNING if ErrorCode.passes(code) else Severity.ERROR,
            f"{question} of {listed(wheres)} cannot be read: {ErrorCode.name_of(code)}",
            "nothing is appended before it is known: see the broker's log",
        )
        for (question, code), wheres in refused.items()
    ]


async def check_groups(side: Side) -> list[Finding]:
    """The election is a consumer group: it needs a coordinator, which needs the cluster's offsets topic."""
    topic = await read_offsets_topic(side.client)
    if topic is None or topic.exists or topic.can_be_made:
        return []
    what = "does not exist" if topic.exists is False else "may not exist (this client may not see it)"
    words = (
        f"{REPLICATION_FACTOR} is {topic.replication_factor}, its brokers are {topic.brokers}, and the topic"
        f" {OFFSETS_TOPIC} {what}: it cannot be created, no consumer group works, and no driver is elected"
    )
    hint = f"{REPLICATION_FACTOR}={topic.brokers} in server.properties of its brokers, or add brokers"
    return [side.find(Severity.WARNING, words, hint)]


class Question(StrEnum):
    END = "the end of the log (ListOffsets with a replica id of our own)"
    PRODUCERS = "the state of producers (DescribeProducers)"


def _one_for_each_leader(client: ClusterClient, topics: Iterable[str]) -> list[TopicPartition]:
    by_leader: dict[int, TopicPartition] = {}
    for name in sorted(topics):
        topic = client.metadata.topics.get(name)
        for number in topic.leaders if topic else ():
            leader = client.leader(TopicPartition(name, number))
            if leader is not None:
                by_leader.setdefault(leader.node, TopicPartition(name, number))
    return [by_leader[node] for node in sorted(by_leader)]


async def _refusal(
    client: ClusterClient, where: TopicPartition, question: Question
) -> tuple[Question, TopicPartition, int] | None:
    """None: answered, or not to be reached, which `check_brokers` tells."""
    try:
        if question is Question.END:
            await list_offset(client, where, LATEST, replica=OURSELVES)
        else:
            await read_producer(client, where, NO_OWNER)
    except BrokerRefused as refused:
        return question, where, refused.code
    except RequestFailed:
        return None
    return None
