"""A plan as plain values: every kind of action by its name, complete, and as it was before."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
import yaml

from heliograph.controller.action_document import encode_action
from heliograph.controller.config_verdict import Drift
from heliograph.controller.gap_filling import UNREAD
from heliograph.controller.plan import (
    Action,
    AddPartitions,
    AwaitPartition,
    ChangeConfigs,
    CleanPartition,
    CreateTopic,
    DeleteTopic,
    KeepConfigs,
    LeavePartition,
    PausePartition,
    Plan,
)
from heliograph.controller.plan_document import plan_document
from heliograph.controller.topic_config import TargetShape
from heliograph.model.admission import Refused
from heliograph.model.claims import Holder
from heliograph.model.partition_filter import PartitionFilter, TopicFilter
from heliograph.model.policy import DEFAULT_POLICY
from heliograph.model.states import PartitionState, StopReason

from .observed import LINK, copy, partition, refusal
from .played import order

WHERE = {"link": "sf-to-nyc", "source_topic": "orders", "target_topic": "orders"}
POLICY = {"policy": DEFAULT_POLICY.texts()}
COPIED = copy(partition(1), next_offset=90)
CREATED = CreateTopic(
    link="sf-to-nyc",
    topic="orders",
    shape=TargetShape(partitions=7, replication_factor=3, configs={"retention.ms": "1"}),
)
LOST = replace(
    refusal(partition(6)),
    why=Refused(
        reason=StopReason.LOST,
        message="gone",
        hint="do: {resume --accept-loss}",
        first_offset=20,
        next_offset=50,
    ),
)
GONE = DeleteTopic(
    link="sf-to-nyc", topic="sf.clicks", topic_id="id of it", source_topic="clicks", why="it is gone"
)
ALL = Plan(
    creations=(CREATED,),
    growths=(AddPartitions(link="sf-to-nyc", topic="orders", there=3, to=7),),
    config_changes=(
        ChangeConfigs(
            link="sf-to-nyc",
            topic="orders",
            changes={"retention.ms": "2", "segment.ms": None},
            before={"retention.ms": None, "segment.ms": "3"},
        ),
    ),
    kept_configs=(
        KeepConfigs(
            link="sf-to-nyc",
            topic="orders",
            drift={"flush.ms": Drift(source="1", target="2")},
            unknown={"message.format.version": "2.8"},
        ),
    ),
    deletions=(GONE,),
    copies=(
        COPIED,
        replace(
            copy(partition(2)),
            align_to=40,
            lost_to=None,
            spec=replace(COPIED.spec, builds=True, partition=partition(2)),
        ),
    ),
    awaited=(AwaitPartition(partition=partition(3), goal=100, why="w", command="kafka-topics.sh"),),
    paused=(PausePartition(partition=partition(4), next_offset=9, goal=10, words="paused by ann"),),
    cleaning=(CleanPartition(partition=partition(5), next_offset=10, goal=10),),
    left=(
        LeavePartition(
            partition=partition(7),
            next_offset=None,
            goal=10,
            holder=Holder(claimant=order("b").claimants[0], link="theirs"),
        ),
    ),
    refusals=(LOST,),
    warnings=("careful",),
)
KINDS = [
    "create_topic",
    "add_partitions",
    "change_configs",
    "keep_configs",
    "delete_topic",
    "copy_partition",
    "copy_partition",
    "await_partition",
    "pause_partition",
    "clean_partition",
    "leave_partition",
    "refuse_partition",
]


def document(planned: Plan = ALL, **filters: Any) -> dict[str, Any]:
    return plan_document(planned, [LINK], {LINK.name: UNREAD}, shown=PartitionFilter(**filters))


def encoded(action: Action) -> dict[str, Any]:
    return encode_action(action, lambda _where: DEFAULT_POLICY)


def test_a_plan_has_every_kind_of_action_in_one_order() -> None:
    assert {type(each) for each in ALL.actions} == set(get_args(Action))
    assert [each["action"] for each in document()["actions"]] == KINDS
    assert [encoded(each)["action"] for each in ALL.actions] == KINDS


def test_a_creation_has_all_that_the_topic_is_created_with() -> None:
    assert encoded(CREATED) == {
        "action": "create_topic",
        "link": "sf-to-nyc",
        "target_topic": "orders",
        "to_do": True,
        "partitions": 7,
        "replication_factor": 3,
        "configs": {"retention.ms": "1"},
    }


def test_new_partitions_are_counted_and_so_are_all() -> None:
    assert encoded(ALL.growths[0]) == {
        "action": "add_partitions",
        "link": "sf-to-nyc",
        "target_topic": "orders",
        "to_do": True,
        "partitions": 7,
        "added": 4,
    }


def test_configs_that_change_say_from_what_to_what_and_those_that_are_kept_what_the_source_has() -> None:
    topic = {"link": "sf-to-nyc", "target_topic": "orders"}
    assert encoded(ALL.config_changes[0]) == {
        "action": "change_configs",
        **topic,
        "to_do": True,
        "configs": {"retention.ms": "2", "segment.ms": None},
        "before": {"retention.ms": None, "segment.ms": "3"},
    }
    assert encoded(ALL.kept_configs[0]) == {
        "action": "keep_configs",
        **topic,
        "to_do": False,
        "drift": {"flush.ms": {"source": "1", "target": "2"}},
        "unknown": {"message.format.version": "2.8"},
    }


def test_a_deletion_names_both_topics_and_says_why() -> None:
    assert encoded(GONE) == {
        "action": "delete_topic",
        "link": "sf-to-nyc",
        "source_topic": "clicks",
        "target_topic": "sf.clicks",
        "to_do": True,
        "topic_id": "id of it",
        "held": False,
        "message": "it is gone",
    }


def test_a_copy_says_from_where_to_where() -> None:
    assert encoded(COPIED) == {
        "action": "copy_partition",
        **WHERE,
        "partition": 1,
        "state": "copying",
        "to_do": False,
        "lag_records": 10,
        **POLICY,
        "next_offset": 90,
        "source_end": 100,
        "align_to": None,
        "lost_to": None,
        "build": None,
    }
    aligned = encoded(ALL.copies[1])
    assert (aligned["state"], aligned["align_to"], aligned["build"]) == ("aligning", 40, "filling")


def test_a_refusal_has_its_code_its_offsets_and_a_hint_that_can_be_pasted() -> None:
    assert encoded(LOST) == {
        "action": "refuse_partition",
        **WHERE,
        "partition": 6,
        "state": "stopped",
        "to_do": True,
        "lag_records": None,
        **POLICY,
        "code": "lost",
        "stopped_at": [20, 50],
        "message": "gone",
        "hint": "do: heliograph topics resume sf-to-nyc orders:6 --accept-loss",
    }
    assert encoded(refusal(partition()))["stopped_at"] is None


def test_what_waits_or_is_left_says_for_whom() -> None:
    by_kind = {each["action"]: each for each in document()["actions"]}
    assert by_kind["await_partition"]["hint"] == "kafka-topics.sh"
    assert by_kind["await_partition"]["message"] == "w"
    assert by_kind["pause_partition"]["message"] == "paused by ann"
    assert by_kind["clean_partition"]["build"] == "cleaning"
    assert by_kind["leave_partition"]["message"] == "it is held by b (pid 7), link theirs"


def test_what_the_document_said_before_it_says_still() -> None:
    made = document()
    (created,) = made["create"]
    assert created == {
        "link": "sf-to-nyc",
        "topic": "orders",
        "partitions": 7,
        "replication_factor": 3,
        "configs": {"retention.ms": "1"},
    }
    rows = made["partitions"]  # one that is left to another run was none of them
    assert [row["partition"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert {tuple(row) for row in rows} == {
        (
            *("link", "source_topic", "target_topic", "partition", "next_offset", "align_to", "backlog"),
            *("policy", "pending", "paused", "refused", "build", "hint"),
        )
    }
    said = [{key for key in ("refused", "pending", "paused") if row[key]} for row in rows]
    assert said == [set(), set(), {"pending"}, {"paused"}, set(), {"refused"}]
    assert [row["next_offset"] for row in rows] == [90, 0, 0, 9, 10, None]
    assert [row["backlog"] for row in rows] == [10, 60, 100, None, None, None]
    assert [row["build"] for row in rows] == [None, "filling", None, None, "cleaning", None]


def test_it_is_plain_data_with_a_name() -> None:
    made = document()
    assert (made["schema"], made["warnings"]) == ("heliograph.plan/1", ["careful"])
    assert json.loads(json.dumps(made)) == yaml.safe_load(yaml.safe_dump(made)) == made
    assert "&id" not in yaml.safe_dump(made)


def test_filters_choose_partitions_and_what_is_done_to_their_topics() -> None:
    def listed(**filters: Any) -> list[str]:
        return [each["action"] for each in document(**filters)["actions"]]

    of_topic = KINDS[:4]
    of_orders = [kind for kind in KINDS if kind != "delete_topic"]
    assert listed(topics=(TopicFilter(pattern="o.*"),)) == of_orders
    assert listed(topics=(TopicFilter(pattern="clicks"),)) == ["delete_topic"]
    assert listed(topics=(TopicFilter(pattern=".*"),)) == KINDS
    assert listed(topics=(TopicFilter(pattern="orders", partitions=frozenset({6})),)) == [
        *of_topic,
        "refuse_partition",
    ]
    assert listed(topics=(TopicFilter(pattern="others"),)) == []
    assert listed(states={PartitionState.PAUSED}) == [*of_topic, "pause_partition"]
    assert listed(codes={"lost"}) == [*of_topic, "refuse_partition"]
    assert "clean_partition" not in listed(lagging=True)
    assert [row["partition"] for row in document(states={PartitionState.PAUSED})["partitions"]] == [4]


def test_only_topics_decide_what_there_is_to_do_and_what_is_said_of_a_link() -> None:
    whole, hidden = document(), document(states={PartitionState.CAUGHT_UP})
    assert hidden["actions"] == hidden["create"] == hidden["partitions"] == []
    assert hidden["links"] == whole["links"]
    assert (whole["to_do"], hidden["to_do"]) == (True, True)
    (link,) = whole["links"]
    assert link["topics_to_create"] == 1
    assert sum(each["partitions"] for each in link["summary"]) == 7
    begun = document(
        replace(ALL, creations=(), growths=(), config_changes=(), deletions=()),
        topics=(TopicFilter(pattern="orders", partitions=frozenset({1})),),
    )
    assert not begun["to_do"]
    assert begun["links"][0]["summary"] == [{"state": "copying", "partitions": 1, "lag_records": 10}]
    assert not document(topics=(TopicFilter(pattern="others"),))["to_do"]
    gone = replace(
        ALL,
        creations=(),
        growths=(),
        config_changes=(),
        kept_configs=(),
        copies=(),
        awaited=(),
        paused=(),
        cleaning=(),
        refusals=(),
    )
    assert document(gone)["to_do"]
    assert not document(gone, topics=(TopicFilter(pattern="orders"),))["to_do"]


@pytest.mark.parametrize("count", [0, 10, 10_000])
def test_it_is_complete_at_any_size(count: int) -> None:
    copies = tuple(copy(partition(number)) for number in range(count))
    made = document(Plan(creations=(), copies=copies, refusals=(), warnings=()))
    assert len(made["actions"]) == len(made["partitions"]) == count
