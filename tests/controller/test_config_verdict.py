"""What is done about a target topic's configs, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.admin import UNTOLD, TopicConfig
from heliograph.controller.build_settings import with_build
from heliograph.controller.config_verdict import (
    ConfigFacts,
    ConfigVerdict,
    Drift,
    judge_configs,
)
from heliograph.controller.followed_configs import NONE_FOLLOWED, Followed
from heliograph.controller.topic_config import CARRIED, FORCED, LARGEST_BATCH, NEEDED
from heliograph.model.config_rules import DEFAULT_RULES, ConfigRules

DAY, WEEK, HOUR = "86400000", "604800000", "3600000"
# What brokers have by default, and so know.
DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": WEEK,
    "retention.bytes": "-1",
    "segment.ms": WEEK,
    "min.insync.replicas": "1",
    "max.message.bytes": "1048588",
    "compression.type": "producer",
    "unclean.leader.election.enable": "false",
    "leader.replication.throttled.replicas": "",
    "remote.storage.enable": "false",
}


def has(own: Mapping[str, str] | None = None, **defaults: str) -> TopicConfig:
    """`defaults` that differ: names with `_` for `.`."""
    others = {name.replace("_", "."): value for name, value in defaults.items()}
    return TopicConfig(own=own or {}, effective={**DEFAULTS, **others, **(own or {})})


def judged(
    source: TopicConfig,
    target: TopicConfig,
    *,
    followed: Mapping[str, str] | Followed | None = None,
    rules: ConfigRules = DEFAULT_RULES,
    replicas: int = 3,
    target_defaults: Mapping[str, str] = DEFAULTS,
) -> ConfigVerdict:
    was = followed if isinstance(followed, Followed) else Followed(values=followed or {})
    facts = ConfigFacts(
        source=source, target=target, replicas=replicas, target_defaults=target_defaults, followed=was
    )
    verdict = judge_configs(facts, rules)
    assert verdict is not None
    return verdict


def is_calm(verdict: ConfigVerdict) -> bool:
    return not (verdict.changes or verdict.drift or verdict.unknown)


@pytest.mark.parametrize(
    ("source", "target", "ours", "change"),
    [
        (DAY, None, None, DAY),  # it is absent there
        (DAY, HOUR, HOUR, DAY),  # the source has changed it
        (None, HOUR, HOUR, None),  # the source has unset it
        (DAY, None, HOUR, DAY),  # somebody has unset ours: it is given back
    ],
)
def test_what_the_mirror_has_set_or_nobody_has_follows_the_source(
    source: str | None, target: str | None, ours: str | None, change: str | None
) -> None:
    key = "segment.ms"
    verdict = judged(
        has({key: source} if source else None),
        has({key: target} if target else None),
        followed={key: ours} if ours else None,
    )
    assert verdict.changes == {key: change}
    assert verdict.before == {key: target}
    assert (verdict.drift, verdict.unknown) == ({}, {})
    assert verdict.followed.values == ({key: ours} if ours else {})  # until the change is seen


@pytest.mark.parametrize("ours", [None, HOUR])
def test_an_operators_value_is_kept_and_told(ours: str | None) -> None:
    verdict = judged(
        has({"segment.ms": WEEK}),
        has({"segment.ms": DAY}),
        followed={"segment.ms": ours} if ours else None,
    )
    assert verdict.changes == {}
    assert verdict.drift == {"segment.ms": Drift(source=WEEK, target=DAY)}
    assert str(verdict.drift["segment.ms"]) == f"{DAY} (source: {WEEK})"


@pytest.mark.parametrize("ours", [None, HOUR])
def test_what_is_the_sources_value_is_the_mirrors_from_then_on(ours: str | None) -> None:
    verdict = judged(
        has({"segment.ms": DAY}),
        has({"segment.ms": DAY}),
        followed=Followed(
            values={"segment.ms": ours} if ours else {}, setting={"segment.ms": (DAY,), "x": (None,)}
        ),
    )
    assert is_calm(verdict)
    assert verdict.followed == Followed(values={"segment.ms": DAY})


@pytest.mark.parametrize("there", [HOUR, DAY, "1"])
def test_a_change_of_which_nobody_knows_whether_it_was_made_is_the_mirrors_either_way(there: str) -> None:
    """Nor which of several, where the source has changed it again."""
    before = Followed(values={"segment.ms": HOUR})
    written = before.about_to({"segment.ms": DAY}).about_to({"segment.ms": "1"})
    verdict = judged(has({"segment.ms": WEEK}), has({"segment.ms": there}), followed=written)
    assert verdict.changes == {"segment.ms": WEEK}


def test_what_neither_has_any_more_is_forgotten() -> None:
    verdict = judged(has(), has(), followed={"segment.ms": DAY})
    assert is_calm(verdict)
    assert verdict.followed == NONE_FOLLOWED


def test_what_an_operator_has_added_is_nobody_elses_business() -> None:
    assert is_calm(judged(has(), has({"segment.ms": DAY})))


# -- defaults of brokers


@pytest.mark.parametrize(
    ("target", "change"),
    [
        (has(retention_ms=DAY), {"retention.ms": WEEK}),
        (has(), {}),  # in force there, too, by default
        (has({"retention.ms": WEEK}, retention_ms=DAY), {}),
    ],
)
def test_retention_in_force_at_the_source_is_in_force_on_the_target(
    target: TopicConfig, change: Mapping[str, str]
) -> None:
    defaults = {"retention.ms": DAY} if target.effective != has().effective else DEFAULTS
    assert judged(has(), target, target_defaults=defaults).changes == change


@pytest.mark.parametrize("known", [True, False])
def test_that_the_targets_defaults_are_not_known_for_a_while_changes_nothing(known: bool) -> None:
    assert is_calm(judged(has(), has(), target_defaults=DEFAULTS if known else {}))


@pytest.mark.parametrize(("known", "change"), [(True, None), (False, WEEK)])
def test_retention_that_the_source_unsets_never_falls_below_the_sources(
    known: bool, change: str | None
) -> None:
    """Unset where the target has the same by default, else set: nothing is removed in between."""
    verdict = judged(
        has(),
        has({"retention.ms": DAY}),
        followed={"retention.ms": DAY},
        target_defaults=DEFAULTS if known else {},
    )
    assert verdict.changes == {"retention.ms": change}


def test_another_retention_than_the_sources_default_is_an_operators_too() -> None:
    verdict = judged(has(), has({"retention.ms": DAY}))
    assert verdict.drift == {"retention.ms": Drift(source=WEEK, target=DAY)}
    assert is_calm(judged(has(), has({"retention.ms": WEEK}, retention_ms=DAY), target_defaults={}))


@pytest.mark.parametrize(("source", "target"), [("compact", "delete"), ("delete", "compact")])
def test_a_cleanup_policy_that_is_changed_at_the_source_follows(source: str, target: str) -> None:
    key = "cleanup.policy"
    assert judged(has({key: source}), has({key: target}), followed={key: target}).changes == {key: source}
    assert judged(has({key: "compact"}), has()).changes == {key: "compact"}
    assert judged(has(), has({key: "compact"}), followed={key: "compact"}).changes == {key: None}


# -- what a mirror needs


@pytest.mark.parametrize("key", sorted(NEEDED))
def test_what_identical_offsets_need_is_never_touched(key: str) -> None:
    rules = ConfigRules(values={key: "3"})
    verdict = judged(has({key: "1"}), has({key: "2"}), followed={key: "2"}, rules=rules)
    assert is_calm(verdict)


@pytest.mark.parametrize(
    "key",
    [
        "unclean.leader.election.enable",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "remote.log.copy.disable",
    ],
)
def test_what_is_each_clusters_own_is_not_followed_unless_the_link_sets_it(key: str) -> None:
    assert is_calm(judged(has({key: "1"}), has({key: "2"})))
    rules = ConfigRules(values={"unclean.leader.election.enable": "true"})
    assert judged(has(), has(), rules=rules).changes == {"unclean.leader.election.enable": "true"}


@pytest.mark.parametrize(
    ("source", "target", "ours", "change"),
    [
        ("9000000", None, None, "9000000"),
        ("9000000", "5000000", "5000000", "9000000"),
        ("2000000", "5000000", "5000000", None),  # the source holds larger batches, not copied yet perhaps
        ("2000000", "5000000", None, None),
    ],
)
def test_the_largest_batch_is_raised_with_the_sources_and_never_lowered(
    source: str, target: str | None, ours: str | None, change: str | None
) -> None:
    verdict = judged(
        has(max_message_bytes=source),
        has({LARGEST_BATCH: target} if target else None),
        followed={LARGEST_BATCH: ours} if ours else None,
    )
    assert verdict.changes == ({LARGEST_BATCH: change} if change else {})
    assert verdict.drift == {}
    assert verdict.followed.values == ({LARGEST_BATCH: ours} if ours else {})


def test_a_smaller_batch_that_an_operator_allows_is_kept_and_told() -> None:
    verdict = judged(has(max_message_bytes="9000000"), has({LARGEST_BATCH: "5000"}))
    assert verdict.drift == {LARGEST_BATCH: Drift(source="9000000", target="5000")}


@pytest.mark.parametrize(
    ("source", "replicas", "target", "ours", "change"),
    [
        ("2", 3, None, None, "2"),
        ("2", 1, None, None, "1"),  # more than it has replicas would refuse every append
        ("2", 3, "1", "1", "2"),
        ("2", 0, "1", "1", None),  # how many it has is not known
        (None, 3, None, None, None),  # the source's default is no reason to change the target's
        (None, 3, "2", "2", "1"),  # which it got when it was created
    ],
)
def test_in_sync_replicas_follow_as_far_as_the_target_has_replicas(
    source: str | None, replicas: int, target: str | None, ours: str | None, change: str | None
) -> None:
    key = "min.insync.replicas"
    verdict = judged(
        has({key: source} if source else None),
        has({key: target} if target else None, min_insync_replicas="2"),
        followed={key: ours} if ours else None,
        replicas=replicas,
    )
    assert verdict.changes == ({key: change} if change else {})
    assert verdict.drift == {}


# -- what the link says


@pytest.mark.parametrize(
    ("rules", "changed"),
    [
        (ConfigRules(), {"segment.ms", "retention.ms"}),
        (ConfigRules(include=("retention[.].*",)), {"retention.ms"}),
        (ConfigRules(exclude=("retention[.].*",)), {"segment.ms"}),
        (ConfigRules(include=("retention[.].*",), exclude=("retention.ms",)), set()),
    ],
)
def test_a_link_says_what_follows(rules: ConfigRules, changed: set[str]) -> None:
    source = has({"segment.ms": DAY, "retention.ms": DAY})
    assert judged(source, has(), rules=rules).changes.keys() == changed


def test_what_the_link_sets_wins_also_over_what_it_leaves_out() -> None:
    rules = ConfigRules(exclude=(".*",), values={"retention.ms": DAY})
    assert judged(has({"retention.ms": HOUR}), has(), rules=rules).changes == {"retention.ms": DAY}
    operators = judged(has(), has({"retention.ms": HOUR}), rules=rules)
    assert operators.drift == {"retention.ms": Drift(source=DAY, target=HOUR)}


def test_what_the_link_sets_no_more_is_the_sources_again() -> None:
    verdict = judged(has(), has({"retention.ms": DAY}), followed={"retention.ms": DAY})
    assert verdict.changes == {"retention.ms": None}


def test_a_link_that_does_not_want_it_leaves_all_as_it_is() -> None:
    facts = ConfigFacts(
        source=has({"segment.ms": DAY}),
        target=has(),
        replicas=1,
        target_defaults={},
        followed=NONE_FOLLOWED,
    )
    assert judge_configs(facts, ConfigRules(sync=False, values={"retention.ms": DAY})) is None


# -- what is left alone


UNREAD = TopicConfig(own={}, effective={}, problem="not allowed")
BUILT = has(with_build({}))


@pytest.mark.parametrize(
    ("source", "target"), [(has(), BUILT), (BUILT, has()), (UNREAD, has()), (has(), UNREAD)]
)
def test_topics_that_are_built_or_not_read_are_left_alone(source: TopicConfig, target: TopicConfig) -> None:
    facts = ConfigFacts(source=source, target=target, replicas=1, target_defaults={}, followed=NONE_FOLLOWED)
    assert judge_configs(facts, DEFAULT_RULES) is None


def test_of_a_source_that_tells_no_configs_only_what_the_link_sets_is_known() -> None:
    assert is_calm(judged(UNTOLD, has({"retention.ms": DAY}), followed={"retention.ms": DAY}))
    rules = ConfigRules(values={"retention.ms": HOUR})
    verdict = judged(UNTOLD, has({"retention.ms": DAY}), followed={"retention.ms": DAY}, rules=rules)
    assert verdict.changes == {"retention.ms": HOUR}


def test_what_the_target_does_not_know_is_told_and_not_tried() -> None:
    verdict = judged(has({"message.format.version": "2.8", "segment.ms": DAY}), has())
    assert (verdict.unknown, verdict.changes) == ({"message.format.version": "2.8"}, {"segment.ms": DAY})


# -- all of it

_NAMES = st.sampled_from([*CARRIED, *FORCED, "segment.ms", "unclean.leader.election.enable"])
_OWN = st.dictionaries(_NAMES, st.sampled_from(["1", "2", "3"]))


@given(_OWN, _OWN, _OWN, st.dictionaries(_NAMES, st.tuples(st.sampled_from([None, "1", "2"]))), st.booleans())
def test_what_is_changed_is_in_step_then_and_no_operators_value_is_ever_lost(
    source: dict[str, str],
    target: dict[str, str],
    ours: dict[str, str],
    setting: dict[str, Any],
    known: bool,
) -> None:
    was = Followed(values=ours, setting=setting)
    defaults = DEFAULTS if known else {}
    first = judged(has(source), has(target), followed=was, target_defaults=defaults)
    for name in first.changes:
        assert name not in target or was.is_ours(name, target[name])
        assert name not in NEEDED
    assert not first.changes.keys() & first.drift.keys()
    after = {**target, **first.changes}
    made = {name: value for name, value in after.items() if value is not None}
    written = first.followed.about_to(first.changes)
    second = judged(has(source), has(made), followed=written, target_defaults=defaults)
    assert second.changes == {}
    assert second.drift == first.drift
    for name, value in first.changes.items():
        assert second.followed.values.get(name) == value
        assert name not in second.followed.setting
