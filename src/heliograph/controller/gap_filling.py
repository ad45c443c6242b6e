"""How the gaps of a link's topics will be filled: by markers, if its target lets us write them.

Every broker is asked: those before 3.8 do not take ALTER for it. Reads only. Must not know which topics have gaps:
nobody can, before they are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Right
from heliograph.cluster.rights import read_cluster_rights, try_writing_markers
from heliograph.controller.preflight_brokers import BROKERS_AT_ONCE
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.wire.error_codes import ErrorCode


class GapWay(StrEnum):
    MARKERS = "markers"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GapFilling:
    """`granted`: the right by which markers are written, where brokers name it. `problem`: why they are not, or why it
    is not known. `denied`: it is for want of a right."""

    way: GapWay
    granted: Right | None = None
    problem: str = ""
    denied: bool = False

    def __str__(self) -> str:
        match self.way:
            case GapWay.MARKERS:
                return f"markers ({self.granted.name} granted)" if self.granted else "markers"
            case GapWay.NONE:
                return f"cannot be filled: {self.problem}"
            case GapWay.UNKNOWN:
                return f"not known: {self.problem}"


async def read_gap_filling(client: ClusterClient) -> GapFilling:
    """Of a target cluster. One broker that refuses is enough: its partitions would stop."""
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
