"""Kafka client properties that we know and do not honour, each with the reason a user is told.

Owns the reasons. Must not know the honoured ones (properties.py), nor what is about security (security/).
"""

from __future__ import annotations

_NOT_BUILT = "not built yet"
_NO_GROUP = "no consumer group moves the data: positions come from the target log"
_NO_RECORDS = "record batches are copied as they are, never built from records"
_SEQUENCES = "every append is checked by the mirror's own producer id and sequence"

_REASONS = {
    "acks": "always all: a batch counts only when every in-sync replica has it",
    "enable.idempotence": f"always on: {_SEQUENCES}",
    "transactional.id": _SEQUENCES,
    "transaction.timeout.ms": _SEQUENCES,
    "transaction.two.phase.commit.enable": _SEQUENCES,
    "retries": "an unknown outcome is never retried blindly: the target is asked first",
    "delivery.timeout.ms": "an unknown outcome is never retried blindly: the target is asked first",
    "compression.type": "batches keep theirs",
    "linger.ms": "the copier never lingers: batches go on as they come",
    "batch.size": _NO_RECORDS,
    "buffer.memory": "set lane_memory at the top level instead",
    "max.block.ms": "the copier holds back by bytes in flight (lane_memory)",
    "partitioner.class": "a record keeps its partition",
    "partitioner.ignore.keys": "a record keeps its partition",
    "key.serializer": _NO_RECORDS,
    "value.serializer": _NO_RECORDS,
    "key.deserializer": _NO_RECORDS,
    "value.deserializer": _NO_RECORDS,
    "interceptor.classes": _NO_RECORDS,
    "max.poll.records": _NO_RECORDS,
    "check.crcs": "always on: a batch's checksum is verified before it is rewritten",
    "group.id": _NO_GROUP,
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "session.timeout.ms": _NO_GROUP,
    "heartbeat.interval.ms": _NO_GROUP,
    "max.poll.interval.ms": _NO_GROUP,
    "partition.assignment.strategy": _NO_GROUP,
    "enable.auto.commit": _NO_GROUP,
    "auto.commit.interval.ms": _NO_GROUP,
    "default.api.timeout.ms": "set request.timeout.ms instead",
    "auto.offset.reset": "where a link starts is the link's own key `start`",
    "isolation.level": "use the link's own key `isolation`",
    "allow.auto.create.topics": "always off: the controller creates target topics",
    "exclude.internal.topics": "always on: internal topics are left out",
    "metric.reporters": "a Java class cannot be loaded here",
    "properties_file": "a key of the cluster, not of a link",  # ours, among Kafka's
    "client.rack": _NOT_BUILT,
    "client.dns.lookup": _NOT_BUILT,
    "socket.connection.setup.timeout.max.ms": _NOT_BUILT,
    "retry.backoff.max.ms": _NOT_BUILT,
    "metadata.max.idle.ms": _NOT_BUILT,
    "metadata.recovery.strategy": _NOT_BUILT,
    "bootstrap.controllers": "a mirror talks to brokers: set bootstrap.servers",
}
_METRICS = "metrics."


def refusal(name: str) -> str | None:
    """Why this known Kafka property is refused; None for one that we do not know."""
    return _NOT_BUILT if name.startswith(_METRICS) else _REASONS.get(name)
