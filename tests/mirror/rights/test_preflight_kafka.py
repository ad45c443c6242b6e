"""Preflight against a broker that checks rights: what it finds missing is missing, and the least rights are enough."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from heliograph.cluster.admin import read_state_lasts_ms
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.empty_transactions import EmptyTransactions, FillProducer
from heliograph.cluster.grants import Resource, Right
from heliograph.cluster.own_topics import OwnTopics
from heliograph.cluster.properties import parse_properties
from heliograph.controller.cells import Cells
from heliograph.controller.clusters import Clusters
from heliograph.controller.drivership import Active, Candidate, Drivership
from heliograph.controller.event_writer import EventWriter, events_targets
from heliograph.controller.finding import Finding
from heliograph.controller.preflight import preflight_links
from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import BrokerRefused
from heliograph.model.events import Event, Severity
from heliograph.model.fill_way import transactional_id, transactional_prefix
from heliograph.model.ledger import EVENTS_TOPIC, OWN_PREFIX, OWN_TOPICS, unpack
from heliograph.model.link import Link
from heliograph.model.outbox import Outbox
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import LinkPolicy
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState
from tests.support.guarded_cluster import Grant, Guarded, grants, on_cluster, on_topic
from tests.support.judge import assert_identical
from tests.support.plain_mirror import mirror_plainly, settings_for
from tests.support.records import mixed_records
from tests.support.topics import create_topic, delete_records
from tests.support.transactions import write_mixed, writers
from tests.support.workload import produce_records

pytestmark = pytest.mark.kafka

TIMEOUT_S = 20.0
READ, WRITE, CREATE, CONFIGS = Right.READ, Right.WRITE, Right.CREATE, Right.DESCRIBE_CONFIGS
GROUPS = grants(Resource.GROUP, "heliograph.", READ, prefixed=True)
# What any mirror needs beside rights on its topics, and what fills gaps.
OF_ANY = GROUPS | on_cluster(CONFIGS, Right.ALTER)


@pytest.fixture(scope="module", autouse=True)
def _topics(guarded_cluster: Guarded) -> None:
    """`readable` has 40 records."""
    with guarded_cluster.open_house():
        for topic in ("full", "unwritable", "unreadable", "hidden", "readable", "cut"):
            create_topic(guarded_cluster.bootstrap_servers, topic, 2)
        _produce(guarded_cluster.bootstrap_servers, "readable")


def _produce(bootstrap: str, topic: str) -> None:
    """40 records of just now: older ones need a lease, which a lane without a driver has not."""
    produce_records(bootstrap, topic, list(mixed_records(1, 40, first_ms=int(time.time() * 1000))))


def check(source: str, target: str, topics: list[str], **link: Any) -> tuple[Finding, ...]:
    return asyncio.run(_check(settings_for(source, target, topics, **link)))


async def _check(settings: Settings) -> tuple[Finding, ...]:
    clusters = Clusters(settings)
    try:
        await clusters.connect()
        return await preflight_links(clusters.source, clusters.target, await clusters.observe())
    finally:
        await clusters.aclose()


def told(
    findings: tuple[Finding, ...],
) -> dict[tuple[Severity, Right | None, Resource | None], tuple[str, ...]]:
    return {(each.severity, each.right, each.resource): each.names for each in findings}


def test_two_open_clusters_lack_nothing(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    new, there = unique_topic("new"), unique_topic("there")
    create_topic(source, new)
    for bootstrap in (source, target):
        create_topic(bootstrap, there, 2)
    assert check(source, target, [new, there, "no-such-topic"]) == ()


def test_one_cluster_at_both_ends_is_found(source_cluster: LabCluster) -> None:
    source = source_cluster.bootstrap_servers
    (found,) = check(source, source, ["any"])
    assert "same Kafka cluster" in found.message


def test_a_guarded_source_names_what_it_lacks(guarded: Guarded, target_cluster: LabCluster) -> None:
    guarded.only(on_topic("unreadable", Right.DESCRIBE))
    findings = check(guarded.bootstrap_servers, target_cluster.bootstrap_servers, ["unreadable", "hidden"])
    error, topic = Severity.ERROR, Resource.TOPIC
    assert told(findings) == {
        (error, Right.READ, topic): ("unreadable",),
        (error, Right.DESCRIBE_CONFIGS, topic): ("unreadable",),
        (error, Right.DESCRIBE, topic): ("hidden",),
    }


def test_the_least_rights_on_a_source_are_enough_to_mirror_it(
    guarded: Guarded, target_cluster: LabCluster
) -> None:
    guarded.only(on_topic("readable", READ, CONFIGS))
    settings = settings_for(guarded.bootstrap_servers, target_cluster.bootstrap_servers, ["readable"])
    assert asyncio.run(_check(settings)) == ()
    _, copies = mirror_plainly(settings)
    assert {copy.state for copy in copies.values()} == {PartitionState.CAUGHT_UP}
    assert sum(copy.next_offset or 0 for copy in copies.values()) == 40


def test_a_guarded_target_names_what_it_lacks(source_cluster: LabCluster, guarded: Guarded) -> None:
    source = source_cluster.bootstrap_servers
    for topic in ("unwritable", "not-there"):
        create_topic(source, topic, 2)
    guarded.only(on_topic("unwritable", READ, CONFIGS), on_cluster(Right.ALTER))
    findings = check(source, guarded.bootstrap_servers, ["unwritable", "not-there"])
    found = told(findings)
    ((_, _, _), groups) = next(item for item in found.items() if item[0][2] is Resource.GROUP)
    error, topic_kind, new = Severity.ERROR, Resource.TOPIC, ("not-there",)
    assert found == {
        (error, Right.WRITE, topic_kind): ("unwritable",),
        (error, Right.DESCRIBE, topic_kind): new,
        (error, Right.READ, topic_kind): new,
        (error, Right.DESCRIBE_CONFIGS, topic_kind): new,
        (error, Right.CREATE, topic_kind): new,
        (error, Right.READ, Resource.GROUP): groups,
        (Severity.WARNING, None, topic_kind): new,
        (Severity.WARNING, Right.READ, topic_kind): tuple(sorted(OWN_TOPICS)),
        (Severity.WARNING, Right.DESCRIBE_CONFIGS, Resource.CLUSTER): (),
    }
    assert {group.rpartition(".")[0] for group in groups} == {"heliograph", "heliograph.link"}


def test_the_least_rights_are_enough_to_elect_create_and_mirror(
    guarded: Guarded, source_cluster: LabCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, guarded.bootstrap_servers
    for topic in ("full", "least-new"):
        create_topic(source, topic, 2)
        _produce(source, topic)
    new = on_topic("least-", READ, WRITE, CONFIGS, CREATE, prefixed=True)
    guarded.only(OF_ANY, on_topic("full", READ, WRITE, CONFIGS), new)
    _allow_own_topics(guarded)

    settings = settings_for(source, target, ["full", "least-new"])
    (doubt,) = asyncio.run(_check(settings))
    assert (doubt.severity, doubt.names) == (Severity.WARNING, ("least-new",))  # writing it is not known yet
    assert asyncio.run(_elected(settings, TopicPartition("full", 1))) == (True, 7_200_000)
    _, copies = mirror_plainly(settings)
    assert {copy.state for copy in copies.values()} == {PartitionState.CAUGHT_UP}
    assert sum(copy.next_offset or 0 for copy in copies.values()) == 80
    assert asyncio.run(_check(settings)) == ()


async def _elected(settings: Settings, where: TopicPartition) -> tuple[bool, int | None]:
    """Whether a driver of the link is elected and can reserve an attempt to fill gaps there, and what is read of how
    long brokers remember."""
    clusters = Clusters(settings)
    await clusters.connect()
    target = clusters.target("link")
    link = clusters.link("link")
    candidate = Candidate(
        claim=link.claim,
        fingerprint=link.fingerprint,
        target=target,
        source_cluster_id=clusters.source("link").metadata.cluster_id,
        target_cluster_id=target.metadata.cluster_id,
    )
    active = asyncio.Event()
    members: list[str] = []

    def tell(_link: str, role: object) -> None:
        if isinstance(role, Active):
            members.append(role.member)
            active.set()

    drivership = Drivership([candidate], tell)
    try:
        drivership.start()
        async with asyncio.timeout(TIMEOUT_S):
            await active.wait()
            cells = Cells(drivership.claims_group("link"), flight_s=TIMEOUT_S)
            reserved = await cells.reserve({where: -1}, member=members[-1])
            return where in reserved, await read_state_lasts_ms(target)
    finally:
        await drivership.aclose()
        await clusters.aclose()


# -- Heliograph's own topics


def test_without_rights_to_our_topics_a_run_says_so_once_and_with_them_its_events_are_there(
    guarded: Guarded, source_cluster: LabCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, guarded.bootstrap_servers
    create_topic(source, "evented")
    link = {"policy": LinkPolicy(start="latest")}
    findings = [each for each in check(source, target, ["evented"], **link) if OWN_PREFIX in each.message]
    assert [(each.severity, each.names) for each in findings] == [
        (Severity.ERROR, ("evented",)),  # it cannot begin late without a ledger
        (Severity.WARNING, tuple(sorted(OWN_TOPICS))),
    ]
    assert all("READ, WRITE on topic __heliograph_" in each.message for each in findings)
    outbox = asyncio.run(_tell(target, "unheard"))
    (told_once,) = [each for each in outbox.last if each.code is Event.NO_LEDGER]
    assert "--operation Write --topic __heliograph_ --resource-pattern-type prefixed" in (
        told_once.hint or ""
    )

    _allow_own_topics(guarded)
    assert not [each for each in check(source, target, ["evented"], **link) if OWN_PREFIX in each.message]
    assert Event.NO_LEDGER not in asyncio.run(_tell(target, "heard")).counts
    assert {"heard", "unheard"} & set(asyncio.run(_events(target))) == {"heard"}


async def _tell(bootstrap: str, message: str) -> Outbox:
    outbox = Outbox()
    async with _client(bootstrap) as client:
        link = Link(name="link", source="src", target="dst", topics=(".*",))
        writer = EventWriter(events_targets([link], lambda _link: client), outbox)
        writer.start()
        outbox.attach(writer)
        outbox.tell(Event.ACTIVE, message)
        await writer.aclose(TIMEOUT_S)
    return outbox


async def _events(bootstrap: str) -> list[str]:
    async with _client(bootstrap) as client:
        log = await OwnTopics(client).open(EVENTS_TOPIC)
        records, _ = await log.read(await log.start())
        values = [record.value or b"" for record in records]
        return [unpack(value)["message"] for value in values if value != b"value"]


# -- logs that start above 0: DELETE


def test_a_log_that_starts_above_0_is_mirrored_with_the_right_to_delete(
    guarded: Guarded, source_cluster: LabCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, guarded.bootstrap_servers
    topics = ["cut", "cut-new"]
    for topic in topics:
        create_topic(source, topic, 2)
        _produce(source, topic)
        delete_records(source, topic, 0, before_offset=40)
        _produce(source, topic)
    guarded.only(OF_ANY, on_topic("cut", READ, WRITE, CONFIGS, CREATE, prefixed=True))
    _allow_own_topics(guarded)

    settings = settings_for(source, target, topics)
    findings = told(asyncio.run(_check(settings)))
    assert findings.pop((Severity.WARNING, None, Resource.TOPIC)) == ("cut-new",)  # as above
    assert findings == {(Severity.ERROR, Right.DELETE, Resource.TOPIC): ("cut", "cut-new")}
    _, copies = mirror_plainly(settings)  # it does not look at what a preflight finds
    stopped = [copy for copy in copies.values() if copy.stopped is not None]
    assert [copy.spec.partition.partition for copy in stopped] == [0, 0]  # the other partitions start at 0
    for copy in stopped:
        assert copy.stopped is not None
        assert "grant DELETE on the topic" in copy.stopped.hint
        assert f"--operation Delete --topic {copy.spec.partition.target_topic}" in copy.stopped.hint

    guarded.allow(on_topic("cut", Right.DELETE, prefixed=True))
    assert asyncio.run(_check(settings)) == ()
    mirror_plainly(settings)
    assert_identical(source, target, topics, records=80)


# -- topics with transactions: ALTER or CLUSTER_ACTION, or transactional ids


def test_with_alter_a_topic_with_transactions_is_mirrored(
    guarded: Guarded, source_cluster: LabCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, guarded.bootstrap_servers
    _write_transactions(source, "altered")
    guarded.only(_mirroring("altered"), on_cluster(Right.ALTER))
    _allow_own_topics(guarded)
    settings = settings_for(source, target, ["altered"])
    assert {found.right for found in asyncio.run(_check(settings))} == {None}  # only that it is new
    assert asyncio.run(_gaps(settings)) == "markers (ALTER granted), some 15,000 offsets/s"
    _, copies = mirror_plainly(settings)
    assert {copy.state for copy in copies.values()} == {PartitionState.CAUGHT_UP}
    _assert_committed_view(source, target, "altered")


def test_without_the_right_to_write_markers_transactions_fill_gaps_or_nothing_does(
    guarded: Guarded, source_cluster: LabCluster
) -> None:
    """`marked` has no right but what any mirror needs, `emptied` WRITE on its transactional ids. Then both are given
    CLUSTER_ACTION: it alone is enough, and goes on where transactions have filled gaps before."""
    source, target = source_cluster.bootstrap_servers, guarded.bootstrap_servers
    for topic in ("marked", "emptied"):
        _write_transactions(source, topic)
    create_topic(source, "emptied-held")
    _produce(source, "emptied-held")
    prefix = transactional_prefix(asyncio.run(_cluster_id(source)))
    ids = grants(Resource.TRANSACTIONAL_ID, f"{prefix}emptied", WRITE, prefixed=True)
    guarded.only(_mirroring("marked"), _mirroring("emptied", prefixed=True), ids)
    _allow_own_topics(guarded)
    marked = settings_for(source, target, ["marked"])
    emptied = settings_for(source, target, ["emptied"])
    _assert_stops_at_the_first_gap(marked, prefix)
    _assert_filled_by_transactions(emptied, prefix)
    _assert_committed_view(source, target, "emptied")
    _assert_nothing_is_left_of_a_holder_that_died(source, target)

    guarded.allow(on_cluster(Right.CLUSTER_ACTION))
    with writers(source, ["three"]) as by:
        write_mixed(5, "emptied", by, 20)
    for settings in (marked, emptied):
        assert asyncio.run(_check(settings)) == ()
        assert asyncio.run(_gaps(settings)) == "markers (CLUSTER_ACTION granted), some 15,000 offsets/s"
        _mirror(settings)
        _assert_committed_view(source, target, *settings.links[0].topics)


def _mirror(settings: Settings) -> None:
    _, copies = mirror_plainly(settings)
    assert {copy.state for copy in copies.values()} == {PartitionState.CAUGHT_UP}, [
        copy.stopped for copy in copies.values()
    ]


def _assert_stops_at_the_first_gap(settings: Settings, prefix: str) -> None:
    warnings = [found for found in asyncio.run(_check(settings)) if found.right is not None]
    assert told(tuple(warnings)) == {(Severity.WARNING, Right.ALTER, Resource.CLUSTER): ()}
    assert "topics with transactions stop at their first gap (of marked)" in warnings[0].message
    missing = f"ALTER or CLUSTER_ACTION on cluster 'dst' is missing, and WRITE on transactional ids {prefix}*"
    assert asyncio.run(_gaps(settings)) == f"cannot be filled: {missing}"
    _, copies = mirror_plainly(settings)
    (copy,) = copies.values()
    assert copy.stopped is not None
    for words in (
        "ALTER, from Kafka 3.8 on, or CLUSTER_ACTION",
        f"WRITE on transactional id {prefix}marked.0",
    ):
        assert words in copy.stopped.message
    for words in (
        f"--operation Write --transactional-id {prefix} --resource-pattern-type prefixed",
        "--operation Alter --cluster",
    ):
        assert words in copy.stopped.hint


def _assert_filled_by_transactions(settings: Settings, prefix: str) -> None:
    assert {found.right for found in asyncio.run(_check(settings))} <= {None}  # only that it is new
    way = f"empty transactions (WRITE granted on transactional ids {prefix}*), some 180 offsets/s a partition"
    assert asyncio.run(_gaps(settings)) == way
    _mirror(settings)


def _assert_nothing_is_left_of_a_holder_that_died(source: str, target: str) -> None:
    """It had begun to fill the gap that is next. Its successor finds that offset filled, and nothing comes later."""
    settings, where = settings_for(source, target, ["emptied-held"]), TopicPartition("emptied-held", 0)
    _mirror(settings)
    begun = asyncio.run(_begin_transaction(source, target, where))
    _produce(source, where.topic)
    _mirror(settings)
    assert_identical(source, target, [where.topic], records=80)
    asyncio.run(_assert_fenced_off(source, target, where, begun))
    assert_identical(source, target, [where.topic], records=80)


async def _begin_transaction(source: str, target: str, where: TopicPartition) -> FillProducer:
    """A marker at the source's end, and half of what would fill its offset on the target."""
    name = transactional_id(await _cluster_id(source), where.topic, where.partition)
    async with _transactions_on(source) as at_source:
        await at_source.write(name, await at_source.fence(name), where, lambda: True)
    async with _transactions_on(target) as at_target:
        producer = await at_target.fence(name)
        await at_target.begin(name, producer, where, lambda: True)
    return producer


async def _assert_fenced_off(source: str, target: str, where: TopicPartition, old: FillProducer) -> None:
    name = transactional_id(await _cluster_id(source), where.topic, where.partition)
    async with _transactions_on(target) as transactions:
        with pytest.raises(BrokerRefused, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
            await transactions.end(name, old, lambda: True)


@asynccontextmanager
async def _transactions_on(bootstrap: str) -> AsyncIterator[EmptyTransactions]:
    client = ClusterClient("either", parse_properties({"bootstrap.servers": bootstrap}))
    await client.connect()
    try:
        yield EmptyTransactions(client, "by hand")
    finally:
        await client.aclose()


async def _cluster_id(bootstrap: str) -> str:
    client = ClusterClient("either", parse_properties({"bootstrap.servers": bootstrap}))
    await client.connect()
    await client.aclose()
    return client.metadata.cluster_id


def _mirroring(topic: str, *, prefixed: bool = False) -> frozenset[Grant]:
    """All that any mirror needs, and no more."""
    own = on_topic(topic, READ, WRITE, CONFIGS, CREATE, prefixed=prefixed)
    return own | GROUPS | on_cluster(CONFIGS)


def _allow_own_topics(guarded: Guarded) -> None:
    """The line that docs/SECURITY.md has for them; with it they can be made."""
    guarded.allow(on_topic(OWN_PREFIX, CREATE, READ, WRITE, prefixed=True))
    asyncio.run(_use_own_topics(guarded.bootstrap_servers))


async def _use_own_topics(bootstrap: str) -> None:
    async with _client(bootstrap) as client:
        for topic in sorted(OWN_TOPICS):
            log = await OwnTopics(client).open(topic)
            await log.append([(b"key", b"value")])
            assert (await log.read(await log.start()))[0]


@asynccontextmanager
async def _client(bootstrap: str) -> AsyncIterator[ClusterClient]:
    client = ClusterClient("dst", parse_properties({"bootstrap.servers": bootstrap}))
    await client.connect()
    try:
        yield client
    finally:
        await client.aclose()


def _write_transactions(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    with writers(bootstrap, ["one", "two"]) as by:
        write_mixed(4, topic, by, 40)


def _assert_committed_view(source: str, target: str, topic: str) -> None:
    for view in ("read_committed", "read_uncommitted"):
        assert_identical(source, target, [topic], isolations=("read_committed", view))


async def _gaps(settings: Settings) -> str:
    """As `plan` shows it."""
    clusters = Clusters(settings)
    try:
        await clusters.connect()
        (seen,) = await clusters.observe()
        return str(seen.gaps)
    finally:
        await clusters.aclose()


# -- the offsets topic


def test_an_offsets_topic_that_cannot_be_made_is_found(source_cluster: LabCluster) -> None:
    with LabCluster.start(name="lonely", properties={"offsets.topic.replication.factor": "3"}) as cluster:
        (found,) = check(source_cluster.bootstrap_servers, cluster.bootstrap_servers, ["any"])
    assert found.severity is Severity.WARNING
    assert "offsets.topic.replication.factor is 3, its brokers are 1" in found.message
    assert "__consumer_offsets does not exist" in found.message
