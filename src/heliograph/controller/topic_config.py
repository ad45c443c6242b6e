"""How a target topic is created from a source topic: a pure rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote

_IN_SYNC = "min.insync.replicas"
LONG_MAX = "9223372036854775807"
_THROTTLES = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
# A mirror must be able to take whatever the source holds, as it is: its own codec, its own timestamps.
FORCED: Mapping[str, str] = {
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": LONG_MAX,
    "message.timestamp.before.max.ms": LONG_MAX,
}
# What decides for how long a record is there, and in which form: as it is in force at the source, also where that is a
# default of its brokers (docs/decisions/0011).
CARRIED = (
    "cleanup.policy",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
)
_REPLACED_BY_FORCED = frozenset({"message.timestamp.difference.max.ms"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetShape:
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def creation_line(servers: str, topic: str, shape: TargetShape) -> str:
    """The command by which an operator creates the topic as the mirror would."""
    line = ["kafka-topics.sh", "--bootstrap-server", servers, "--create", "--topic", quote(topic)]
    line += ["--partitions", str(shape.partitions), "--replication-factor", str(shape.replication_factor)]
    line += [
        part for key, value in sorted(shape.configs.items()) for part in ("--config", quote(f"{key}={value}"))
    ]
    return " ".join(line)


def partitions_line(servers: str, topic: str, partitions: int) -> str:
    """The command by which an operator adds partitions to it: so many it has then."""
    line = ["kafka-topics.sh", "--bootstrap-server", servers, "--alter", "--topic", quote(topic)]
    return " ".join([*line, "--partitions", str(partitions)])


def deletion_line(servers: str, topic: str) -> str:
    """The command by which an operator deletes it."""
    return f"kafka-topics.sh --bootstrap-server {servers} --delete --topic {quote(topic)}"


def shape_target(
    *,
    topic: str,
    partitions: int,
    replication_factor: int,
    own: Mapping[str, str],
    effective: Mapping[str, str],
    target_brokers: int,
    target_defaults: Mapping[str, str],
    untold: bool = False,
) -> TargetShape:
    """The source topic's own configs, and what is carried of its brokers' defaults, unless the target's brokers have it
    too; with what a mirror needs forced, and what the target cannot hold cut. What `target_defaults` does not hold is
    not known. `untold`: neither are the source's configs."""
    warnings = []
    if untold:
        warnings.append(
            f"{topic}: the source's brokers do not tell configs (Kafka before 0.11): the target topic is created with"
            " the target's own retention and cleanup policy. If the source keeps records for longer, or compacts them,"
            " create the target topic before the first run, with these configs"
        )
    factor = min(max(replication_factor, 1), max(target_brokers, 1))
    if factor < replication_factor:
        warnings.append(
            f"{topic}: replication factor {replication_factor} of the source is cut to {factor}:"
            f" the target has {target_brokers} broker(s)"
        )
    carried = {key: effective[key] for key in CARRIED if key in effective}
    configs = {key: value for key, value in carried.items() if target_defaults.get(key) != value}
    configs |= {k: v for k, v in own.items() if k not in _THROTTLES | _REPLACED_BY_FORCED}
    configs |= FORCED
    if "max.message.bytes" in effective:
        configs["max.message.bytes"] = effective["max.message.bytes"]
    in_sync = int(effective.get(_IN_SYNC, own.get(_IN_SYNC, "1")))
    if in_sync > factor and _IN_SYNC in own:
        warnings.append(f"{topic}: {_IN_SYNC} {in_sync} is cut to {factor}")
    # Always set: where the target's default is above the factor, its brokers would refuse every append.
    configs[_IN_SYNC] = str(min(in_sync, factor))
    return TargetShape(
        partitions=partitions, replication_factor=factor, configs=configs, warnings=tuple(warnings)
    )
