"""How the gaps of a link's topics will be filled: by markers, if its target takes them from us, or by transactions.

Every broker is asked for markers: those before 3.8 do not take ALTER for it. Transactional ids are asked for where
markers are not taken, one for each topic: rights may differ by topic. Reads only. Must not know which topics have gaps:
nobody can, before they are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Right
from heliograph.cluster.rights import read_cluster_rights, try_transactional_id, try_writing_markers
from heliograph.controller.finding import listed
from heliograph.controller.preflight_brokers import BROKERS_AT_ONCE
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.fill_rate import FillRate
from heliograph.model.fill_way import FillWay, transactional_id, transactional_prefix
from heliograph.wire.error_codes import ErrorCode

IDS_AT_ONCE = 16  # to one cluster


class GapWay(StrEnum):
    MARKERS = "markers"
    TRANSACTIONS = "transactions"
    NONE = "none"
    UNKNOWN = "unknown"


# What brokers do as a rule (docs/BENCHMARK.md): of a lane, and of each partition.
_RATES = {GapWay.MARKERS: "some 15,000 offsets/s", GapWay.TRANSACTIONS: "some 180 offsets/s a partition"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GapFilling:
    """`granted`: the right by which markers are written, where brokers name it. `problem`: why they are not, or why it
    is not known. `denied`: it is for want of a right. `prefix`: of the link's transactional ids; `barred`: the target
    topics whose ids may not be used. `measured`: how fast it was, where that is known."""

    way: GapWay
    granted: Right | None = None
    problem: str = ""
    denied: bool = False
    prefix: str = ""
    barred: frozenset[str] = frozenset()
    measured: FillRate | None = None

    def fill_way(self, target_topic: str) -> FillWay:
        """Where it is not known markers are tried: brokers that refuse them say why."""
        match self.way:
            case GapWay.MARKERS | GapWay.UNKNOWN:
                return FillWay.MARKERS
            case GapWay.TRANSACTIONS:
                return FillWay.NONE if target_topic in self.barred else FillWay.TRANSACTIONS
            case GapWay.NONE:
                return FillWay.NONE

    def with_measured(self, rate: FillRate | None) -> GapFilling:
        """A rate of another way says nothing of this one."""
        return replace(self, measured=rate) if rate is not None and rate.way.value == self.way.value else self

    def __str__(self) -> str:
        rate = self.measured or _RATES.get(self.way, "")
        match self.way:
            case GapWay.MARKERS:
                granted = f" ({self.granted.name} granted)" if self.granted else ""
                return f"markers{granted}, {rate}"
            case GapWay.TRANSACTIONS:
                but = f"; cannot be filled of topic {listed(self.barred)}" if self.barred else ""
                return f"empty transactions (WRITE granted on transactional ids {self.prefix}*), {rate}{but}"
            case GapWay.NONE:
                return f"cannot be filled: {self.problem}"
            case GapWay.UNKNOWN:
                return f"not known: {self.problem}"


UNREAD = GapFilling(way=GapWay.UNKNOWN, problem="nobody was asked")


async def read_gap_filling(
    client: ClusterClient, source_cluster_id: str = "", target_topics: Iterable[str] = ()
) -> GapFilling:
    """Of a target cluster, for these topics."""
    filling = replace(await _read_markers(client), prefix=transactional_prefix(source_cluster_id))
    topics = sorted(target_topics)
    if filling.way is not GapWay.NONE or not topics:
        return filling
    ids = [transactional_id(source_cluster_id, topic, 0) for topic in topics]
    allowed = await at_most(IDS_AT_ONCE, [partial(_may_use, client, each) for each in ids])
    barred = frozenset(topic for topic, may in zip(topics, allowed, strict=True) if not may)
    if len(barred) == len(topics):
        problem = f"{filling.problem}, and WRITE on transactional ids {filling.prefix}*"
        return replace(filling, problem=problem) if filling.denied else filling
    return replace(filling, way=GapWay.TRANSACTIONS, barred=barred)


async def _may_use(client: ClusterClient, name: str) -> bool:
    """Whether a broker says so; where none does, it is not taken for granted."""
    for node in sorted(client.metadata.brokers):
        try:
            code = await try_transactional_id(client, node, name)
        except BrokerRefused:
            return False  # it knows no transactions
        except (RequestFailed, ProtocolError):
            continue
        return code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return False


async def _read_markers(client: ClusterClient) -> GapFilling:
    """One broker that refuses is enough: its partitions would stop."""
    nodes = sorted(client.metadata.brokers)
    answers = await at_most(BROKERS_AT_ONCE, [partial(_try, client, node) for node in nodes])
    for answer in answers:
        if isinstance(answer, GapFilling):
            return answer
    failures = [answer for answer in answers if isinstance(answer, str)]
    if len(failures) == len(answers):
        return GapFilling(way=GapWay.UNKNOWN, problem=failures[0] if failures else "no broker is known")
    return GapFilling(way=GapWay.MARKERS, granted=await _granted(client))


async def _try(client: ClusterClient, node: int) -> GapFilling | str | None:
    """None: this broker takes markers. Words: it does not say."""
    try:
        code = await try_writing_markers(client, node)
    except BrokerRefused as refused:
        return GapFilling(way=GapWay.NONE, problem=refused.message)
    except (RequestFailed, ProtocolError) as failed:
        return failed.message
    match code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            problem = f"ALTER or CLUSTER_ACTION on cluster {client.name!r} is missing"
            return GapFilling(way=GapWay.NONE, problem=problem, denied=True)
    return f"broker {node} answers {ErrorCode.name_of(code)}"


async def _granted(client: ClusterClient) -> Right | None:
    """Rights are told to who may DESCRIBE the cluster. ALTER includes that: who is told nothing has the other one."""
    try:
        held = await read_cluster_rights(client)
    except BrokerRefused:
        return None
    if held is None:
        return None
    return Right.ALTER if Right.ALTER in held else Right.CLUSTER_ACTION
