"""How a target topic is created from a source topic."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.topic_defaults import BROKER_NAMES
from heliograph.controller.topic_config import (
    CARRIED,
    FORCED,
    LONG_MAX,
    TargetShape,
    configs_line,
    creation_line,
    shape_target,
)
from heliograph.model.config_rules import DEFAULT_RULES, ConfigRules


def shape(
    own: Mapping[str, str] | None = None,
    *,
    effective: Mapping[str, str] | None = None,
    replication_factor: int = 3,
    target_brokers: int = 3,
    target_defaults: Mapping[str, str] | None = None,
    rules: ConfigRules = DEFAULT_RULES,
) -> TargetShape:
    return shape_target(
        topic="orders",
        partitions=6,
        replication_factor=replication_factor,
        own=own or {},
        effective={**(effective or {}), **(own or {})},
        target_brokers=target_brokers,
        target_defaults=target_defaults or {},
        rules=rules,
    )


def test_a_source_that_tells_no_configs_gets_a_target_with_default_ones_and_a_warning() -> None:
    made = shape_target(
        topic="orders",
        partitions=6,
        replication_factor=1,
        own={},
        effective={},
        target_brokers=1,
        target_defaults={"retention.ms": DAY_MS},
        untold=True,
    )
    assert made.configs == {**FORCED, "min.insync.replicas": "1"}
    (warning,) = made.warnings
    assert "before 0.11" in warning


WEEK_MS, DAY_MS = "604800000", "86400000"


@pytest.mark.parametrize(
    ("own", "target_default", "set_to"),
    [
        (None, WEEK_MS, DAY_MS),  # its brokers' default, which the target's do not have
        (None, None, DAY_MS),  # the target's brokers do not tell theirs
        (None, DAY_MS, None),  # both have it: the target's operators may change it for all their topics
        (DAY_MS, DAY_MS, DAY_MS),  # somebody has set it on the topic itself
        (DAY_MS, WEEK_MS, DAY_MS),
    ],
)
def test_retention_is_that_which_is_in_force_at_the_source(
    own: str | None, target_default: str | None, set_to: str | None
) -> None:
    made = shape(
        {"retention.ms": own} if own else {},
        effective={"retention.ms": DAY_MS},
        target_defaults={"retention.ms": target_default} if target_default else {},
    )
    assert made.configs.get("retention.ms") == set_to


@pytest.mark.parametrize("key", CARRIED)
def test_all_that_decides_how_long_a_record_is_there_is_carried(key: str) -> None:
    assert key in BROKER_NAMES or key == "retention.ms"  # else nobody could know the target's default
    assert shape(effective={key: "1"}, target_defaults={key: "2"}).configs[key] == "1"
    assert key not in shape(effective={key: "1"}, target_defaults={key: "1"}).configs
    assert key not in shape(target_defaults={key: "1"}).configs  # an old source does not have it


def test_the_sources_own_configs_are_kept_and_its_brokers_other_defaults_are_not() -> None:
    made = shape({"retention.ms": "3600000"}, effective={"segment.bytes": "1073741824"})
    assert made.configs == {"retention.ms": "3600000", "min.insync.replicas": "1", **FORCED}
    assert (made.partitions, made.replication_factor, made.warnings) == (6, 3, ())


@pytest.mark.parametrize(
    ("key", "value", "forced"),
    [
        ("compression.type", "zstd", "producer"),
        ("message.timestamp.type", "LogAppendTime", "CreateTime"),
        ("message.timestamp.after.max.ms", "3600000", LONG_MAX),
        ("message.timestamp.before.max.ms", "3600000", LONG_MAX),
    ],
)
def test_a_target_never_rewrites_or_refuses_what_its_source_holds(key: str, value: str, forced: str) -> None:
    assert shape({key: value}).configs[key] == forced
    assert shape().configs[key] == forced


def test_a_target_takes_batches_as_large_as_its_source_does_by_default_too() -> None:
    made = shape(effective={"max.message.bytes": "9000000"})
    assert made.configs["max.message.bytes"] == "9000000"
    assert "max.message.bytes" not in shape().configs


@pytest.mark.parametrize(
    "key",
    [
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "unclean.leader.election.enable",
        "remote.storage.enable",
    ],
)
def test_what_means_nothing_on_the_target_is_left_out(key: str) -> None:
    made = shape({key: "0:1"})
    assert key not in made.configs
    assert made.warnings == ()


def test_a_link_says_what_is_taken_and_what_a_mirror_needs_is_there_in_any_case() -> None:
    rules = ConfigRules(
        include=("retention[.].*", "segment.ms", "min.insync.replicas"),
        exclude=("retention.bytes", "min.insync.replicas"),
        values={"segment.ms": "5", "flush.ms": "6"},
    )
    own = {
        "retention.ms": "1",
        "retention.bytes": "2",
        "segment.ms": "3",
        "index.interval.bytes": "4",
        "min.insync.replicas": "2",
    }
    carried = {"cleanup.policy": "compact", "max.message.bytes": "9"}
    assert shape(own, effective=carried, rules=rules).configs == {
        **FORCED,
        "retention.ms": "1",
        "segment.ms": "5",
        "flush.ms": "6",
        "max.message.bytes": "9",
        "min.insync.replicas": "2",
    }


@pytest.mark.parametrize(("by_link", "set_to"), [("5", "9"), ("11", "11")])
def test_a_link_never_sets_a_smaller_batch_than_its_source_takes(by_link: str, set_to: str) -> None:
    rules = ConfigRules(values={"max.message.bytes": by_link})
    assert shape(effective={"max.message.bytes": "9"}, rules=rules).configs["max.message.bytes"] == set_to


def test_in_sync_replicas_that_a_link_sets_are_cut_without_a_word_about_the_sources() -> None:
    made = shape({"min.insync.replicas": "3"}, rules=ConfigRules(values={"min.insync.replicas": "2"}))
    assert (made.configs["min.insync.replicas"], made.warnings) == ("2", ())


def test_the_line_that_creates_a_topic_can_be_pasted_into_a_shell() -> None:
    line = creation_line(
        "a:1,b:2", "orders", TargetShape(partitions=3, replication_factor=2, configs={"x.y": "a b"})
    )
    assert line == (
        "kafka-topics.sh --bootstrap-server a:1,b:2 --create --topic orders --partitions 3 --replication-factor 2"
        " --config 'x.y=a b'"
    )


def test_the_line_that_sets_configs_takes_lists_and_what_is_to_be_unset() -> None:
    values = {"cleanup.policy": "compact,delete", "flush.ms": "1", "segment.ms": None}
    assert configs_line("a:1", "orders", values) == (
        "kafka-configs.sh --bootstrap-server a:1 --alter --entity-type topics --entity-name orders"
        " --add-config 'cleanup.policy=[compact,delete],flush.ms=1' --delete-config segment.ms"
    )


def test_more_replicas_than_the_target_has_brokers_are_cut_with_a_warning() -> None:
    made = shape(replication_factor=3, target_brokers=2)
    assert made.replication_factor == 2
    (warning,) = made.warnings
    assert warning.startswith("orders: replication factor 3")
    assert "cut to 2" in warning


def test_in_sync_replicas_are_cut_with_the_replication_factor() -> None:
    made = shape({"min.insync.replicas": "2"}, target_brokers=1)
    assert made.configs["min.insync.replicas"] == "1"
    assert len(made.warnings) == 2
    assert "min.insync.replicas 2 is cut to 1" in made.warnings[1]


@pytest.mark.parametrize(("default", "brokers", "set_to"), [("2", 3, "2"), ("2", 1, "1"), ("3", 2, "2")])
def test_in_sync_replicas_are_always_set_to_what_holds_on_the_source(
    default: str, brokers: int, set_to: str
) -> None:
    """Left to the target's default, a topic of fewer replicas than that would refuse every append."""
    made = shape(effective={"min.insync.replicas": default}, target_brokers=brokers)
    assert made.configs["min.insync.replicas"] == set_to
    assert not [w for w in made.warnings if "min.insync" in w]  # nobody has asked for it on the topic


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9))
def test_a_topic_is_always_one_that_its_target_can_create_and_write(
    replication_factor: int, target_brokers: int, in_sync: int
) -> None:
    made = shape(
        {"min.insync.replicas": str(in_sync)},
        replication_factor=replication_factor,
        target_brokers=target_brokers,
    )
    assert 1 <= made.replication_factor <= max(target_brokers, 1)
    assert 1 <= int(made.configs["min.insync.replicas"]) <= made.replication_factor
