"""The plan document (heliograph.plan/1): what a run would do, complete, as far as it was asked for. Pure.

`actions` says all of it (action_document.py). `create` and `partitions` say some of it again, in the words that were
there before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from heliograph.controller.action_document import Document, encode_action
from heliograph.controller.gap_filling import GapFilling
from heliograph.controller.outlook import is_to_do, lag_of_action, partition_of, state_by
from heliograph.controller.plan import (
    Action,
    CreateTopic,
    DeleteTopic,
    PartitionAction,
    Plan,
    RefusePartition,
    TopicAction,
)
from heliograph.model.link import Link
from heliograph.model.partition_filter import EVERY_PARTITION, PartitionFilter
from heliograph.model.settings import Caution
from heliograph.model.state_summary import summarise

SCHEMA = "heliograph.plan/1"


def plan_document(
    planned: Plan,
    links: Sequence[Link],
    gaps: Mapping[str, GapFilling],
    cautions: Sequence[Caution] = (),
    shown: PartitionFilter = EVERY_PARTITION,
) -> Document:
    """`gaps`: by link, how they will be filled. `cautions`: of the config. What is said of a link, and `to_do`, are of
    all that `shown` means, also of what it does not list."""
    policies = {link.name: link.policy_of for link in links}
    gone = [each for each in planned.deletions if shown.means_topic(each.source_topic)]
    meant = _chosen(planned.actions, lambda action: shown.means(partition_of(action)), gone)
    listed = [
        encode_action(action, lambda where: policies[where.link](where.source_topic))
        for action in _chosen(
            meant, lambda action: _is_listed(action, shown), () if shown.chooses_rows else gone
        )
    ]
    by_link: defaultdict[str, list[Action]] = defaultdict(list)
    for action in meant:
        by_link[action.link if isinstance(action, TopicAction) else partition_of(action).link].append(action)
    return {
        "schema": SCHEMA,
        "to_do": any(map(is_to_do, meant)),
        "links": [_link(link, gaps[link.name], by_link[link.name]) for link in links],
        "actions": listed,
        "create": [_creation(each) for each in listed if each["action"] == "create_topic"],
        "partitions": [_row(each) for each in listed if each["action"] in _SAID_AS],
        "warnings": [*map(str, cautions), *planned.warnings],
    }


def _chosen(
    actions: Iterable[Action], keeps: Callable[[PartitionAction], bool], gone: Collection[DeleteTopic]
) -> list[Action]:
    """These partitions, and what is done to their topics; and of topics that have none any more these."""
    actions = list(actions)
    kept = {partition_of(each) for each in actions if not isinstance(each, TopicAction) and keeps(each)}
    topics = {(where.link, where.target_topic) for where in kept}

    def is_chosen(action: Action) -> bool:
        if isinstance(action, DeleteTopic):
            return action in gone
        if isinstance(action, TopicAction):
            return (action.link, action.topic) in topics
        return partition_of(action) in kept

    return list(filter(is_chosen, actions))


def _is_listed(action: PartitionAction, shown: PartitionFilter) -> bool:
    code = str(action.why.reason) if isinstance(action, RefusePartition) else None
    return shown.keeps(partition_of(action), state_by(action), lag_of_action(action), code)


def _link(link: Link, filling: GapFilling, actions: Sequence[Action]) -> Document:
    partitions = [each for each in actions if not isinstance(each, TopicAction)]
    return {
        "link": link.name,
        "source": link.source,
        "target": link.target,
        "topics_to_create": sum(isinstance(each, CreateTopic) for each in actions),
        "summary": summarise((state_by(each), lag_of_action(each)) for each in partitions),
        "gaps": {
            "way": filling.way.value,
            "granted": filling.granted.name if filling.granted else None,
            "offsets_per_s": filling.measured.offsets_per_s if filling.measured else None,
            "measured_at": filling.measured.at if filling.measured else None,
            "text": str(filling),
        },
    }


# -- the same in the words that were there before; values of their own, else YAML would refer from one to the other

_SAID_AS = {
    "copy_partition": None,
    "await_partition": "pending",
    "pause_partition": "paused",
    "clean_partition": None,
    "refuse_partition": "refused",
}


def _creation(action: Document) -> Document:
    return {
        "link": action["link"],
        "topic": action["target_topic"],
        "partitions": action["partitions"],
        "replication_factor": action["replication_factor"],
        "configs": dict(action["configs"]),
    }


def _row(action: Document) -> Document:
    kind = action["action"]
    words = {
        word: action["message"] if word == _SAID_AS[kind] else None for word in _SAID_AS.values() if word
    }
    copied = kind in ("copy_partition", "await_partition")
    return {
        "link": action["link"],
        "source_topic": action["source_topic"],
        "target_topic": action["target_topic"],
        "partition": action["partition"],
        "next_offset": action.get("next_offset"),
        "align_to": action.get("align_to"),
        "backlog": (action["lag_records"] or 0) if copied else None,
        "policy": dict(action["policy"]),
        **words,
        "build": action.get("build"),
        "hint": action.get("hint"),
    }
