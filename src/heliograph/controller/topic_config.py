"""Which configs a target topic gets from its source topic, and how it is created: pure rules.

One rule for both: what a topic is created with is what it is kept in step with (config_verdict.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote

from heliograph.model.config_rules import DEFAULT_RULES, ConfigRules

IN_SYNC = "min.insync.replicas"
LARGEST_BATCH = "max.message.bytes"
LONG_MAX = "9223372036854775807"
# What the target's operators decide, whatever the source has: its brokers' disks, its leaders, moves under way.
_OF_EACH_CLUSTER = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "unclean.leader.election.enable",
    }
)
_OF_TIERED_STORAGE = "remote."
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
COUNTED = frozenset({IN_SYNC, LARGEST_BATCH})  # what is set depends on how large these are
NEEDED = FORCED.keys() | _REPLACED_BY_FORCED  # nobody may choose these


def is_taken(name: str) -> bool:
    """Whether a target topic gets this config of its source topic, if its link wants it."""
    return not (name in NEEDED | _OF_EACH_CLUSTER or name.startswith(_OF_TIERED_STORAGE))


def wanted_configs(
    *,
    own: Mapping[str, str],
    effective: Mapping[str, str],
    target_defaults: Mapping[str, str],
    replicas: int,
    rules: ConfigRules = DEFAULT_RULES,
) -> dict[str, str]:
    """What is to be set on a target topic of so many `replicas`: the source topic's `own` configs, and what is carried
    of its brokers' defaults (`effective`), unless the target's brokers have it too; as far as the link takes it. What
    the link says itself wins, and what a mirror needs is there in any case. What `target_defaults` does not hold is
    not known."""
    carried = {key: effective[key] for key in CARRIED if key in effective and rules.takes(key)}
    configs = {key: value for key, value in carried.items() if target_defaults.get(key) != value}
    configs |= {key: value for key, value in own.items() if is_taken(key) and rules.takes(key)}
    configs |= rules.values
    configs |= FORCED
    largest = [each[LARGEST_BATCH] for each in (effective, rules.values) if LARGEST_BATCH in each]
    if largest:
        configs[LARGEST_BATCH] = max(largest, key=int)
    # Always set: where the target's default is above the factor, its brokers would refuse every append.
    configs[IN_SYNC] = str(min(int(rules.values.get(IN_SYNC, _in_sync(own, effective))), replicas))
    return configs


def _in_sync(own: Mapping[str, str], effective: Mapping[str, str]) -> str:
    return effective.get(IN_SYNC, own.get(IN_SYNC, "1"))


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


def configs_line(servers: str, topic: str, values: Mapping[str, str | None]) -> str:
    """The command by which an operator sets configs of a topic; None: unset."""
    line = ["kafka-configs.sh", "--bootstrap-server", servers, "--alter", "--entity-type", "topics"]
    line += ["--entity-name", quote(topic)]
    added = [f"{name}={_listed(value)}" for name, value in values.items() if value is not None]
    removed = [name for name, value in values.items() if value is None]
    for option, each in (("--add-config", added), ("--delete-config", removed)):
        line += [option, quote(",".join(each))] if each else []
    return " ".join(line)


def _listed(value: str) -> str:
    """The tool takes a comma for the end of a value, but for one in brackets."""
    return f"[{value}]" if "," in value else value


def shape_target(
    *,
    topic: str,
    partitions: int,
    replication_factor: int,
    own: Mapping[str, str],
    effective: Mapping[str, str],
    target_brokers: int,
    target_defaults: Mapping[str, str],
    rules: ConfigRules = DEFAULT_RULES,
    untold: bool = False,
    by_config: bool = False,
) -> TargetShape:
    """With what the target cannot hold cut; configs as in `wanted_configs`. `untold`: the source's are not known.
    `by_config`: the config says how many replicas it gets, and not the source."""
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
            f"{topic}: replication factor {replication_factor} of the {'config' if by_config else 'source'} is cut to"
            f" {factor}: the target has {target_brokers} broker(s)"
        )
    in_sync = int(_in_sync(own, effective))
    if in_sync > factor and IN_SYNC in own and IN_SYNC not in rules.values:
        warnings.append(f"{topic}: {IN_SYNC} {in_sync} is cut to {factor}")
    configs = wanted_configs(
        own=own, effective=effective, target_defaults=target_defaults, replicas=factor, rules=rules
    )
    return TargetShape(
        partitions=partitions, replication_factor=factor, configs=configs, warnings=tuple(warnings)
    )
