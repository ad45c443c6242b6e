"""Control markers: WriteTxnMarkers to one broker, with a permit, as appends go.

Owns the request and its answer. Must not know which offsets are to be filled, nor what a label means: that is
model/marker_label.py's. Each marker is an end of a transaction that never was, an abort: one control record, which no
consumer sees.

A broker appends the markers of a request in their order, but it answers with one code for each producer id and
partition, the last it heard of. So 0 says nothing of the markers before the last: who must know reads the log's end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka.protocol.producer import WriteTxnMarkersResponse

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.flight import CAREFUL_UNACKNOWLEDGED_MS
from heliograph.cluster.gate import Permit
from heliograph.cluster.grants import marker_grant_line
from heliograph.cluster.messages import common_version, decode, unpacking
from heliograph.model.errors import BrokerRefused, LineLeft, ProtocolError
from heliograph.model.marker_label import MarkerLabel
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.txn_markers import TXN_MARKERS_VERSION, TxnMarkerEntry, encode_txn_markers

# Of one request, 10 ms of a broker's time. More go on a connection of their own: a broker takes a connection's next
# request when it has answered the last.
FEW_MARKERS = 200


class Marker(NamedTuple):
    where: TopicPartition
    label: MarkerLabel


async def write_markers(
    client: ClusterClient,
    node: int,
    purpose: str,
    markers: Sequence[Marker],
    permit: Permit,
    *,
    timeout_ms: int,
) -> dict[tuple[TopicPartition, int], int]:
    """The broker's code for each partition and producer id. Those of one partition are appended in the order given.

    `permit` is asked right before the last byte leaves; if it says no, the connection of this purpose is closed, and
    nothing is appended. What a kernel was given and nobody takes is given up as on a careful line: an answer is
    awaited before the next request, so a broker that is well takes it at once.

    Who gives up waiting gives up the connection: a broker takes nothing from it before it has answered.
    """
    assert markers, "nothing to write"
    connection = await client.connection(node, purpose, unacknowledged_ms=CAREFUL_UNACKNOWLEDGED_MS)
    ours = range(TXN_MARKERS_VERSION, TXN_MARKERS_VERSION + 1)
    version = common_version(connection, ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", ours)
    answer = connection.request(
        ApiKey.WRITE_TXN_MARKERS,
        version,
        encode_txn_markers(_entries(markers)),
        flexible=True,
        timeout_ms=timeout_ms,
        permit=permit,
    )
    try:
        body = await answer
    except asyncio.CancelledError:
        connection.close(LineLeft(f"the answer of broker {node} is not awaited any more"))
        raise
    response = decode(WriteTxnMarkersResponse, body, version, connection.address)
    codes = _codes(response, f"markers from broker {node}")
    if ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes.values():
        raise _denied(client)
    missing = {(marker.where, marker.label.producer_id) for marker in markers} - codes.keys()
    if missing:
        raise ProtocolError(
            f"markers from broker {node}: nothing is said of {len(missing)} that were asked for"
        )
    return codes


def _entries(markers: Sequence[Marker]) -> list[TxnMarkerEntry]:
    """Markers of one label share an entry, unless one of their partitions has a later entry already: the broker goes
    through entries in their order."""
    entries: list[tuple[MarkerLabel, dict[str, list[int]]]] = []
    entry_of: dict[MarkerLabel, int] = {}
    last_of: dict[TopicPartition, int] = {}
    for where, label in markers:
        nth = entry_of.get(label, -1)
        if nth <= last_of.get(where, -1):
            nth = entry_of[label] = len(entries)
            entries.append((label, {}))
        entries[nth][1].setdefault(where.topic, []).append(where.partition)
        last_of[where] = nth
    return [
        TxnMarkerEntry(label.producer_id, label.producer_epoch, label.coordinator_epoch, topics)
        for label, topics in entries
    ]


def _codes(response: Any, what: str) -> dict[tuple[TopicPartition, int], int]:
    with unpacking(what):
        return {
            (TopicPartition(topic.name, partition.partition_index), marker.producer_id): int(
                partition.error_code
            )
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }


def _denied(client: ClusterClient) -> BrokerRefused:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return BrokerRefused(
        f"cluster {client.name!r} does not let us write transaction markers: {code.name}",
        code=code,
        hint="grant ALTER (Kafka 3.8 and later) or CLUSTER_ACTION on the cluster: "
        + marker_grant_line(client.properties),
    )
