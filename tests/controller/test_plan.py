"""Plan: from what was observed to what is to be done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.cluster.admin import TopicConfig
from heliograph.controller.build_settings import phase_of, with_build
from heliograph.controller.plan import DEFAULT_MAX_MESSAGE_BYTES, Plan, plan
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight, TargetTopic
from heliograph.copier.target_takes import NO_TIME_LIMIT
from heliograph.model.admission import LastBatch
from heliograph.model.errors import ConfigError
from heliograph.model.hints import REMIRROR
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import DEFAULT_POLICY, Oversize, TopicPolicy
from heliograph.model.producer_id import cluster_code, producer_id
from heliograph.model.states import BuildPhase, StopReason

from .observed import (
    LINK,
    NYC_ID,
    SF_ID,
    config,
    mirrored_sight,
    snapshot,
    source_sight,
    source_topic,
    span,
    target_topic,
)
from .played import order

BACK = Link(name="nyc-to-sf", source="nyc", target="sf", topics=(".*",))


def why_refused(made: Plan) -> StopReason:
    assert made.copies == ()
    (refusal,) = made.refusals
    assert refusal.why.message
    assert refusal.why.hint
    return refusal.why.reason


def problems_of(*snapshots: LinkSnapshot) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as refused:
        plan(snapshots)
    assert refused.value.exit_code == 2
    assert refused.value.hint
    return refused.value.problems


# -- topics that other runs hold


def test_a_topic_that_another_run_holds_is_left_to_it_neither_judged_nor_created() -> None:
    looks = [source_topic("orders", [source_sight(0, 10)]), source_topic("bad", [source_sight(5, 10)] * 2)]
    holder = order("b", topics=".*").holder("bad")
    made = plan(
        [snapshot(*looks)], held_by=lambda link, topic: holder if (link, topic) == (LINK, "bad") else None
    )
    assert [copy.spec.partition.source_topic for copy in made.copies] == ["orders"]
    assert [creation.topic for creation in made.creations] == ["orders"]
    assert (made.refusals, made.warnings) == ((), ())
    assert [(each.partition.source_topic, each.partition.partition) for each in made.left] == [
        ("bad", 0),
        ("bad", 1),
    ]
    assert {(each.holder, each.next_offset, each.goal) for each in made.left} == {(holder, None, 10)}


@pytest.mark.parametrize("known", [True, False])
def test_a_compacted_log_is_built_whether_its_topic_or_the_brokers_say_that_it_is_compacted(
    known: bool,
) -> None:
    topic = source_topic(sights=[source_sight(5, 10)], config=config(cleanup_policy="compact"))
    made = plan([snapshot(topic, target_defaults={"cleanup.policy": "compact"} if known else {})])
    (copy,) = made.copies
    assert (copy.spec.builds, copy.spec.aligns, copy.align_to) == (True, True, 5)
    (creation,) = made.creations
    assert phase_of(creation.shape.configs) is BuildPhase.FILLING


def test_a_topic_that_is_being_cleaned_is_given_to_no_lane_and_one_that_is_built_is_copied() -> None:
    compact = {"cleanup.policy": "compact"}
    topic = source_topic(sights=[mirrored_sight(source_end=10, target_end=5)], config=config(compact))
    building = with_build(compact)
    filling = plan([snapshot(topic, targets=[target_topic(own=building)])])
    assert [copy.spec.builds for copy in filling.copies] == [True]
    cleaned = plan([snapshot(topic, targets=[target_topic(own={**building, **compact})])])
    assert (len(cleaned.copies), len(cleaned.cleaning), cleaned.partitions) == (0, 1, 1)
    built = plan([snapshot(topic, targets=[target_topic(own=compact)])])
    assert [copy.spec.builds for copy in built.copies] == [False]


def test_a_topic_that_is_being_built_is_neither_copied_nor_left_when_its_source_is_not_compacted_any_more() -> (
    None
):
    """Its brokers would remove records that the source keeps; what they have begun is ended."""
    compact = {"cleanup.policy": "compact"}
    sight, building = mirrored_sight(source_end=10, target_end=5), with_build(compact)
    topic = source_topic(sights=[sight], config=config({"cleanup.policy": "delete"}))
    filling = plan([snapshot(topic, targets=[target_topic(own=building)])])
    assert why_refused(filling) is StopReason.BUILD
    cleaned = plan([snapshot(topic, targets=[target_topic(own={**building, **compact})])])
    assert (len(cleaned.copies), len(cleaned.refusals), len(cleaned.cleaning)) == (0, 0, 1)


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("targets", [[], [target_topic()]])
def test_a_source_that_is_being_built_itself_is_not_copied_before_that_is_over(
    policy: str, targets: list[TargetTopic]
) -> None:
    own = {**with_build({"cleanup.policy": "compact"}), "cleanup.policy": policy}
    made = plan([snapshot(source_topic(config=config(own)), targets=targets)])
    assert why_refused(made) is StopReason.BUILD
    assert made.creations == ()
    assert made.refusals[0].why.hint.startswith("wait for topic_built")


def test_a_topic_is_created_with_the_retention_of_its_sources_brokers() -> None:
    topic = source_topic(config=config(retention_ms="86400000", retention_bytes="-1"))
    defaults = {"retention.ms": "604800000", "retention.bytes": "-1"}
    (creation,) = plan([snapshot(topic, target_defaults=defaults)]).creations
    assert creation.shape.configs["retention.ms"] == "86400000"
    assert "retention.bytes" not in creation.shape.configs


# -- topics that an operator creates


WAITING = replace(LINK, create_topics=False)


def test_a_topic_that_its_link_may_not_create_is_awaited_with_the_line_that_creates_it() -> None:
    topic = source_topic(
        sights=[source_sight(0, 100), source_sight(0, 7)], config=config({"retention.ms": "5"})
    )
    made = plan([snapshot(topic, link=WAITING)])
    assert (made.creations, made.copies, made.refusals) == ((), (), ())
    assert [(each.partition.partition, each.goal) for each in made.awaited] == [(0, 100), (1, 7)]
    assert made.partitions == 2
    (command,) = {each.command or "" for each in made.awaited}
    begin = "kafka-topics.sh --bootstrap-server nyc:9092 --create --topic orders --partitions 2 --replication-factor 1"
    assert command.startswith(begin + " --config compression.type=producer --config ")
    assert "--config retention.ms=5" in command


def test_a_topic_that_is_there_is_copied_whoever_created_it() -> None:
    topic = source_topic(sights=[mirrored_sight(source_end=100, target_end=0)])
    made = plan([snapshot(topic, targets=[target_topic()], link=WAITING)])
    assert (len(made.copies), made.awaited) == (1, ())


def test_what_would_be_refused_is_refused_and_nobody_is_asked_to_create_its_topic() -> None:
    topic = source_topic(config=TopicConfig(own={}, effective={}, problem="they cannot be read"))
    made = plan([snapshot(topic, link=WAITING)])
    assert why_refused(made) is StopReason.TOPIC_CONFIG
    assert made.awaited == ()


# -- topics and partitions


def test_a_topic_that_is_not_on_the_target_is_created_and_copied_from_the_beginning() -> None:
    topic = source_topic(sights=[source_sight(0, 100), source_sight(0, 7)])
    made = plan([snapshot(topic)])
    (creation,) = made.creations
    assert (creation.link, creation.topic, creation.shape.partitions) == ("sf-to-nyc", "orders", 2)
    assert [(c.spec.partition.partition, c.next_offset, c.goal, c.backlog) for c in made.copies] == [
        (0, 0, 100, 100),
        (1, 0, 7, 7),
    ]
    assert made.refusals == ()
    assert made.partitions == 2


def test_a_topic_that_is_on_the_target_is_copied_on_from_its_end_and_not_created() -> None:
    topic = source_topic(sights=[mirrored_sight(source_end=100, target_end=60)])
    made = plan([snapshot(topic, targets=[target_topic()])])
    assert made.creations == ()
    (copied,) = made.copies
    assert (copied.next_offset, copied.goal, copied.backlog) == (60, 100, 40)


def test_the_position_is_the_targets_log_end_and_the_goal_is_what_consumers_can_read() -> None:
    sight = replace(
        mirrored_sight(source_end=100, target_end=60),
        source=span(0, 100, high_watermark=95),
        source_end=90,
        target=span(0, 60, high_watermark=50),
    )
    (copied,) = plan([snapshot(source_topic(sights=[sight]), targets=[target_topic()])]).copies
    assert (copied.next_offset, copied.goal) == (60, 90)


def test_a_position_above_what_consumers_can_read_is_no_negative_backlog() -> None:
    sight = replace(mirrored_sight(source_end=90, target_end=100), source=span(0, 100, high_watermark=95))
    (copied,) = plan([snapshot(source_topic(sights=[sight]), targets=[target_topic()])]).copies
    assert copied.backlog == 0


def test_a_copy_is_told_its_clusters_and_the_id_it_writes_with() -> None:
    link = replace(LINK, naming="prefix")
    (copied,) = plan([snapshot(source_topic(), link=link)]).copies
    assert copied.spec.partition == MirrorPartition("sf-to-nyc", "orders", "sf.orders", 0)
    assert (copied.spec.source, copied.spec.target) == ("sf", "nyc")
    assert copied.spec.target_cluster_id == NYC_ID
    assert copied.spec.producer_id == producer_id(SF_ID, "orders")


def test_a_copy_is_told_the_policy_of_its_topic() -> None:
    skipping = replace(DEFAULT_POLICY, oversize=Oversize.SKIP)
    link = replace(LINK, policies=(TopicPolicy(match="orders", policy=skipping),))
    planned = plan([snapshot(source_topic("orders"), source_topic("payments"), link=link)])
    assert {c.spec.partition.source_topic: c.spec.policy for c in planned.copies} == {
        "orders": skipping,
        "payments": DEFAULT_POLICY,
    }


@pytest.mark.parametrize(
    ("state_lasts_ms", "flight_s", "is_forgetful"),
    [
        (None, 30.0, False),
        (60_000, 30.0, True),
        (360_000, 30.0, True),
        (360_002, 30.0, False),
        (360_002, 31.0, True),
    ],
)
def test_brokers_that_forget_before_all_has_come_are_said_and_everything_is_perishable(
    state_lasts_ms: int | None, flight_s: float, is_forgetful: bool
) -> None:
    planned = plan([snapshot(source_topic(), state_lasts_ms=state_lasts_ms, flight_s=flight_s)])
    (copy,) = planned.copies
    assert copy.spec.is_perishable(timestamp_ms=1_000_000, now_ms=1_000_000) is is_forgetful
    words = f"its brokers forget a producer after {state_lasts_ms} ms"
    assert [words in warning for warning in planned.warnings] == [True] * is_forgetful


def test_the_batch_limit_is_the_existing_targets_then_the_sources_then_kafkas() -> None:
    large = source_topic(config=config(max_message_bytes="9000000"))
    small_target = target_topic(max_message_bytes="2000")
    for observed, limit_bytes in [
        (snapshot(large, targets=[small_target]), 2_000),
        (snapshot(large), 9_000_000),
        (snapshot(source_topic()), DEFAULT_MAX_MESSAGE_BYTES),
    ]:
        (copied,) = plan([observed]).copies
        assert copied.spec.max_batch_bytes == limit_bytes


def test_a_copy_knows_which_times_the_target_takes_and_whether_its_source_is_compacted() -> None:
    compacted = source_topic(config=config(cleanup_policy="compact,delete"))
    limited = target_topic(message_timestamp_after_max_ms="5", message_timestamp_before_max_ms="7")
    (copied,) = plan([snapshot(compacted, targets=[limited])]).copies
    assert (copied.spec.after_max_ms, copied.spec.before_max_ms, copied.spec.source_compacts) == (5, 7, True)
    (created,) = plan([snapshot(source_topic())]).copies  # a mirror creates topics that take all
    assert created.spec.after_max_ms == created.spec.before_max_ms == NO_TIME_LIMIT
    assert not created.spec.source_compacts


@pytest.mark.parametrize("source_end", [None, 100])
def test_a_partition_that_cannot_be_seen_is_left_to_its_lane(source_end: int | None) -> None:
    source = None if source_end is None else span(0, source_end)
    unseen = PartitionSight(source=source, source_end=source_end, unreadable="orders:0 has no leader")
    made = plan([snapshot(source_topic(sights=[unseen]), targets=[target_topic()])])
    (copied,) = made.copies
    assert copied.goal == source_end
    assert made.refusals == ()


# -- refusals: each stops alone (P7)


def test_a_refused_partition_stops_no_other_partition_of_its_topic() -> None:
    stranger = LastBatch(producer_id=7, last_sequence=59)
    foreign = replace(mirrored_sight(source_end=100, target_end=60), last_batch=stranger)
    topic = source_topic(sights=[mirrored_sight(source_end=9, target_end=9), foreign])
    made = plan([snapshot(topic, targets=[target_topic(partitions=2)])])
    assert [c.spec.partition.partition for c in made.copies] == [0]
    assert [(r.partition.partition, r.why.reason) for r in made.refusals] == [(1, StopReason.FOREIGN)]


def test_a_refused_topic_is_not_created_and_stops_no_other_topic() -> None:
    long_name = "t" * 248
    link = replace(LINK, naming="prefix")
    made = plan([snapshot(source_topic("orders"), source_topic(long_name), link=link)])
    assert [c.topic for c in made.creations] == ["sf.orders"]
    assert [c.spec.partition.source_topic for c in made.copies] == ["orders"]
    assert [(r.partition.source_topic, r.why.reason) for r in made.refusals] == [
        (long_name, StopReason.UNSUPPORTED)
    ]


def test_a_target_name_of_exactly_kafkas_limit_is_fine() -> None:
    assert plan([snapshot(source_topic("t" * 249))]).refusals == ()


@pytest.mark.parametrize(
    ("naming", "source", "separator", "topic"),
    [
        ("__heliograph_{topic}", "sf", ".", "ledger"),
        ("__heliograph_{topic}", "sf", ".", "a-topic-of-later"),
        ("__{topic}", "sf", ".", "heliograph_events"),
        ("_{topic}", "sf", ".", "_heliograph_events"),
        ("{topic}_{source}", "commands", ".", "_.heliograph"),
        ("prefix", "__heliograph", "_", "commands"),
        ("prefix", "__heliograph", ".", "ledger"),  # Kafka would refuse to create ours beside it
    ],
)
def test_no_naming_leads_into_a_topic_of_heliographs_own(
    naming: str, source: str, separator: str, topic: str
) -> None:
    link = Link(name="l", source=source, target="nyc", topics=(".*",), naming=naming, separator=separator)
    made = plan([snapshot(source_topic(topic), link=link)])
    assert why_refused(made) is StopReason.UNSUPPORTED
    assert made.creations == ()
    assert link.target_topic(topic) in made.refusals[0].why.message


def test_a_topic_beside_one_that_would_be_heliographs_own_is_mirrored() -> None:
    link = replace(LINK, naming="__{topic}")
    made = plan([snapshot(source_topic("heliograph_ledger"), source_topic("orders"), link=link)])
    assert [each.partition.source_topic for each in made.refusals] == ["heliograph_ledger"]
    assert [each.spec.partition.target_topic for each in made.copies] == ["__orders"]


def test_a_source_log_that_starts_above_zero_is_mirrored_into_a_new_target() -> None:
    observed = snapshot(source_topic(sights=[source_sight(5, 100)]))
    assert len(plan([observed]).copies) == 1


def test_a_compacted_log_that_starts_above_zero_is_refused_where_its_topic_is_there_already() -> None:
    """Its records cannot be deleted, and so it cannot be aligned."""
    compact = {"cleanup.policy": "compact"}
    sight = PartitionSight(source=span(5, 100), source_end=100, target=span(0, 0))
    topic = source_topic(sights=[sight], config=config(compact))
    made = plan([snapshot(topic, targets=[target_topic(own=compact)])])
    assert why_refused(made) is StopReason.LOG_START
    assert REMIRROR in made.refusals[0].why.hint


def test_a_source_cluster_that_is_its_own_target_is_refused_partition_by_partition() -> None:
    observed = snapshot(source_topic(), target_id=SF_ID, targets=[target_topic()])
    assert why_refused(plan([observed])) is StopReason.LOOP


def test_a_topic_of_another_number_of_partitions_is_refused() -> None:
    observed = snapshot(source_topic(), targets=[target_topic(partitions=3)])
    assert why_refused(plan([observed])) is StopReason.PARTITIONS


def test_an_existing_target_that_rewrites_batches_is_refused() -> None:
    observed = snapshot(source_topic(), targets=[target_topic(compression_type="gzip")])
    assert why_refused(plan([observed])) is StopReason.TOPIC_CONFIG


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_whose_configs_cannot_be_read_is_refused_alone(side: str) -> None:
    unread = TopicConfig(own={}, effective={}, problem="TOPIC_AUTHORIZATION_FAILED")
    hidden = source_topic("hidden", config=unread if side == "source" else config())
    target = replace(target_topic("hidden"), config=unread if side == "target" else config())
    made = plan([snapshot(source_topic("orders"), hidden, targets=[target])])
    assert [c.spec.partition.source_topic for c in made.copies] == ["orders"]
    (refused,) = made.refusals
    assert refused.why.reason is StopReason.TOPIC_CONFIG
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.why.message
    assert "DESCRIBE_CONFIGS" in refused.why.hint


def test_a_topic_whose_partitions_are_all_refused_is_not_created() -> None:
    """Otherwise an empty topic would be left on the target that nobody asked for."""
    long_named = replace(LINK, naming="x" * 250 + "{topic}")
    assert plan([snapshot(source_topic(), link=long_named)]).creations == ()


# -- warnings


def test_a_link_that_matches_nothing_is_a_warning_and_not_an_error() -> None:
    made = plan([snapshot()])
    assert made.partitions == 0
    assert made.warnings == ("link sf-to-nyc: no topic of cluster 'sf' matches",)


def test_what_is_cut_when_a_topic_is_created_is_said() -> None:
    (warning,) = plan([snapshot(source_topic(replication_factor=3))]).warnings
    assert "replication factor 3" in warning
    existing = snapshot(source_topic(replication_factor=3), targets=[target_topic()])
    assert plan([existing]).warnings == ()


@pytest.mark.parametrize(("wanted", "made_with"), [(None, 3), (2, 2), (5, 4)])
def test_a_topic_is_created_with_the_replicas_that_the_link_says_or_its_source_has(
    wanted: int | None, made_with: int
) -> None:
    link = replace(LINK, replication_factor=wanted)
    made = plan([snapshot(source_topic(replication_factor=3), link=link, target_brokers=4)])
    assert made.creations[0].shape.replication_factor == made_with
    assert ["replication factor 5 of the config is cut to 4" in each for each in made.warnings] == [True] * (
        wanted == 5
    )


@pytest.mark.parametrize(("wanted", "is_told"), [(None, True), (2, True), (1, False)])
def test_that_target_topics_have_fewer_replicas_than_wanted_is_said_as_long_as_it_is_so(
    wanted: int | None, is_told: bool
) -> None:
    topics = [source_topic(name, replication_factor=3) for name in ("a", "b")]
    there = [replace(target_topic(name), replication_factor=1) for name in ("a", "b")]
    seen = snapshot(*topics, link=replace(LINK, replication_factor=wanted), targets=there)
    warnings = plan([seen]).warnings
    assert len(warnings) == is_told
    for warning in warnings:
        assert f"a (1 of {wanted or 3}), b (1 of {wanted or 3})" in warning
        assert "links.sf-to-nyc.replication_factor: 1" in warning


# -- links that cannot go together


def test_two_links_into_one_topic_are_refused_with_both_names() -> None:
    other = replace(LINK, name="lax-to-nyc", source="lax")
    (problem,) = problems_of(
        snapshot(source_topic()), snapshot(source_topic(), link=other, source_id="lax-cluster-id")
    )
    assert "orders" in problem
    assert "sf-to-nyc (orders) and lax-to-nyc (orders)" in problem


def test_two_topics_of_one_link_with_one_target_name_are_refused() -> None:
    link = replace(LINK, naming="everything")
    (problem,) = problems_of(snapshot(source_topic("a"), source_topic("b"), link=link))
    assert "sf-to-nyc (a) and sf-to-nyc (b)" in problem


def test_one_topic_to_two_clusters_is_fine() -> None:
    other = replace(LINK, name="sf-to-lax", target="lax")
    made = plan([snapshot(source_topic()), snapshot(source_topic(), link=other, target_id="lax-id")])
    assert [c.link for c in made.creations] == ["sf-to-nyc", "sf-to-lax"]


def test_a_circle_of_two_links_is_refused() -> None:
    (problem,) = problems_of(
        snapshot(source_topic()), snapshot(source_topic(), link=BACK, source_id=NYC_ID, target_id=SF_ID)
    )
    assert "topic orders would be mirrored in a circle" in problem


def test_a_circle_of_three_links_is_refused() -> None:
    there = replace(LINK, name="nyc-to-lax", source="nyc", target="lax")
    home = replace(LINK, name="lax-to-sf", source="lax", target="sf")
    assert problems_of(
        snapshot(source_topic()),
        snapshot(source_topic(), link=there, source_id=NYC_ID, target_id="lax-id"),
        snapshot(source_topic(), link=home, source_id="lax-id", target_id=SF_ID),
    )


def test_both_directions_are_fine_where_naming_keeps_the_topics_apart() -> None:
    there, back = replace(LINK, naming="prefix"), replace(BACK, naming="prefix")
    made = plan(
        [
            snapshot(source_topic(), link=there),
            snapshot(source_topic(), link=back, source_id=NYC_ID, target_id=SF_ID),
        ]
    )
    assert [c.topic for c in made.creations] == ["sf.orders", "nyc.orders"]


def test_all_problems_of_links_are_told_at_once() -> None:
    twice = replace(LINK, name="again")
    back = snapshot(source_topic("orders"), link=BACK, source_id=NYC_ID, target_id=SF_ID)
    problems = problems_of(snapshot(source_topic()), snapshot(source_topic(), link=twice), back)
    assert any("would be written by" in problem for problem in problems)
    assert any("circle" in problem for problem in problems)


def test_clusters_that_share_a_code_are_refused() -> None:
    """Two cluster ids of one 24-bit code: batches would not tell which of them they came from."""
    seen: dict[int, str] = {}
    number = 0
    while cluster_code(f"cluster-{number}") not in seen:
        seen[cluster_code(f"cluster-{number}")] = f"cluster-{number}"
        number += 1
    one, other = seen[cluster_code(f"cluster-{number}")], f"cluster-{number}"
    (problem,) = problems_of(snapshot(source_topic(), source_id=one, target_id=other))
    assert one in problem
    assert other in problem
