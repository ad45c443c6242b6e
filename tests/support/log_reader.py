"""One cluster's logs as a consumer sees them, of committed records unless asked for all, partition by partition.

Owns a librdkafka consumer that belongs to no group's assignment and commits nothing. Must not know the
other cluster, nor any code of the mirror: the judge is worth something only while it is independent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

CHUNK_RECORDS = 2_000
CHUNK_WAIT_S = 0.2  # the time at a log's end that holds no record up to its last offset
METADATA_POLL_S = 0.1
TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "CreateTime", TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime"}

SETTINGS = {
    "group.id": "independent-judge",  # the client insists on a name; nothing is joined or committed
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # an offset that vanished under the judge is no reason to skip on
    "isolation.level": "read_committed",
    "check.crcs": True,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,  # a new assignment waits for the last fetch of the old one
    "fetch.max.bytes": 16 << 20,
    "max.partition.fetch.bytes": 4 << 20,
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.queue.backoff.ms": 2,  # a full queue pauses fetching for a second otherwise
    "max.poll.interval.ms": 86_400_000,
}

Headers = tuple[tuple[str, bytes | None], ...]


class Undecided(Exception):
    """A log could not be read to its end: there is no verdict."""


class SeenRecord(NamedTuple):
    """All that a consumer can see of a record."""

    offset: int
    timestamp_type: str
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    timeout_s: float
    at: float

    @classmethod
    def after(cls, timeout_s: float) -> Self:
        return cls(timeout_s=timeout_s, at=time.monotonic() + timeout_s)

    def left_s(self, doing: str) -> float:
        """Seconds left; none left raises, and says what was being done."""
        left_s = self.at - time.monotonic()
        if left_s <= 0:
            raise Undecided(f"no verdict within {self.timeout_s:g} s: {doing}")
        return left_s


class LogReader:
    """Reads one partition at a time. Leaving the context closes the consumer."""

    def __init__(
        self,
        bootstrap: str,
        deadline: Deadline,
        isolation: str = "read_committed",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`settings`: what the client needs to talk to this cluster (old_kafka.py, client_access.py)."""
        self._bootstrap = bootstrap
        self._deadline = deadline
        self._consumer = Consumer(
            {**SETTINGS, "bootstrap.servers": bootstrap, "isolation.level": isolation, **(settings or {})}
        )

    def partition_count(self, topic: str) -> int | None:
        """The number of partitions once all have a leader; None if there is no such topic."""
        where = f"{self._bootstrap} {topic}: waiting for leaders of all partitions"
        while True:
            # Asked for all topics: a question by name could create it.
            found = self._asking(where, self._consumer.list_topics).topics.get(topic)
            if found is None:
                return None
            if found.error is None and all(each.leader >= 0 for each in found.partitions.values()):
                return len(found.partitions)
            time.sleep(METADATA_POLL_S)

    def bounds(self, topic: str, partition: int) -> range:
        """From the log's start to the end that a consumer of this isolation can reach."""
        where = f"{self._bootstrap} {topic}[{partition}]: asking for start and end"
        start, end = self._asking(
            where, self._consumer.get_watermark_offsets, TopicPartition(topic, partition), cached=False
        )
        return range(start, end)

    def records(self, topic: str, partition: int, bounds: range) -> Iterator[SeenRecord]:
        if not bounds:
            return
        next_offset = bounds.start
        self._consumer.assign([TopicPartition(topic, partition, next_offset)])
        while next_offset < bounds.stop:
            where = f"{self._bootstrap} {topic}[{partition}]: at offset {next_offset} of {bounds.stop}"
            self._deadline.left_s(where)
            wanted = min(CHUNK_RECORDS, bounds.stop - next_offset)
            for message in self._consumer.consume(wanted, CHUNK_WAIT_S):
                if message.topic() != topic or message.partition() != partition:
                    continue  # a last word about the partition read before
                if _is_end(message, where):
                    next_offset = max(next_offset, message.offset())
                elif message.offset() >= bounds.stop:
                    return  # the log grew since its end was read, after a gap
                else:
                    next_offset = message.offset() + 1
                    yield _seen(message)

    def close(self) -> None:
        self._consumer.close()

    def _asking(self, where: str, question: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return question(*arguments, timeout=self._deadline.left_s(where), **named)
        except KafkaException as error:
            raise Undecided(f"{where}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_topic(
    bootstrap: str, topic: str, *, timeout_s: float = 60.0, settings: Mapping[str, Any] | None = None
) -> list[list[SeenRecord]]:
    """All records of a topic that fits into memory, by partition."""
    with LogReader(bootstrap, Deadline.after(timeout_s), settings=settings) as reader:
        partitions = range(reader.partition_count(topic) or 0)
        return [list(reader.records(topic, each, reader.bounds(topic, each))) for each in partitions]


def _is_end(message: Any, where: str) -> bool:
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise Undecided(f"{where}: {error}")


def _seen(message: Any) -> SeenRecord:
    kind, timestamp_ms = message.timestamp()
    # Messages of format 0 have none; in later formats Kafka writes -1 for that, whatever the type.
    timed = kind in TIMESTAMP_TYPES and timestamp_ms >= 0
    return SeenRecord(
        message.offset(),
        TIMESTAMP_TYPES[kind] if timed else "no timestamp",
        timestamp_ms if timed else -1,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
