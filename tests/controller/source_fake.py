"""A source cluster that answers fetches of single batches: all that `status` asks of a client itself."""

from __future__ import annotations

from typing import Any, cast

from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.metadata import ClusterMetadata, Leader
from heliograph.cluster.properties import ClientProperties
from heliograph.controller.clusters import Clusters
from heliograph.model.errors import Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from tests.wire.batches import make_batch

VERSION = 11


class Source:
    """`batches`: base offset to timestamp, one record each. Plays client and connection."""

    name = "sf"
    address = "127.0.0.1:9092"
    versions = {ApiKey.FETCH: (4, VERSION)}  # noqa: RUF012 - a constant of the fake
    metadata = ClusterMetadata(cluster_id="sf-cluster-id", controller=0, brokers={})
    properties = ClientProperties(bootstrap_servers=(("127.0.0.1", 9092),))

    def __init__(
        self, batches: dict[int, int] | None = None, *, led: bool = True, alive: bool = True, error: int = 0
    ) -> None:
        self.batches, self.led, self.alive, self.error = batches or {}, led, alive, error
        self.fetches = 0

    def leader(self, _where: TopicPartition) -> Leader | None:
        return Leader(0, 3) if self.led else None

    async def connection(self, _node: int, _purpose: str) -> Source:
        return self

    async def refresh(self) -> None:
        """Nothing has changed."""

    async def request(self, _key: int, _version: int, parts: list[bytes], **__: Any) -> memoryview:
        self.fetches += 1
        if not self.alive:
            raise Disconnected("broker 0 is gone")
        asked = FetchRequest.decode(memoryview(b"".join(parts)), version=VERSION)
        topic = FetchResponse.FetchableTopicResponse
        answers = [
            topic(topic=each.topic, partitions=[self._answer(p.partition) for p in each.partitions])
            for each in asked.topics
        ]
        body = FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=answers)
        return memoryview(body.encode(version=VERSION))

    def _answer(self, partition: int) -> Any:
        records = b"".join(
            make_batch([(None, b"value", [])], base_offset=offset, timestamp=timestamp)
            for offset, timestamp in sorted(self.batches.items())
        )
        return FetchResponse.FetchableTopicResponse.PartitionData(
            partition_index=partition,
            error_code=self.error,
            high_watermark=100,
            last_stable_offset=100,
            log_start_offset=0,
            aborted_transactions=[],
            preferred_read_replica=-1,
            records=records,
        )


class SourceOnly:
    """The driver's clusters, as far as `status` asks them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def source(self, _link: str) -> ClusterClient:
        return cast(ClusterClient, self._source)


def clusters_of(source: Source) -> Clusters:
    return cast(Clusters, SourceOnly(source))
