"""What `heliograph plan` prints: a row for all partitions of a topic of which the same is to be said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.controller.build_settings import KEEP_OFF
from heliograph.controller.config_verdict import config_shown
from heliograph.interface.cli.row_table import (
    Row,
    first_lines,
    number,
    summary_line,
    table_of_rows,
    with_hint,
)
from heliograph.model.policy import LinkPolicy
from heliograph.model.state_summary import lag_of
from heliograph.model.states import BuildPhase

RANGES_SHOWN = 8
_WORDS = {
    "refuse_partition": "refuse",
    "await_partition": "wait",
    "pause_partition": "leave",
    "leave_partition": "leave",
}
_HEADINGS = ("link", "source topic", "target topic", "partitions", "do", "from", "records")


def table_of(document: dict[str, Any], *, all_rows: bool = False) -> RenderableType:
    created = {(c["link"], c["topic"]) for c in document["create"]}
    groups = list(_groups(each for each in document["actions"] if "partition" in each))
    # A column for policies only where one of them is not the default: most tables have none.
    policies = any(_differences(row) for row in groups)

    def cells(row: Row) -> list[str]:
        new = (row["link"], row["target_topic"]) in created
        return [
            row["link"],
            row["source_topic"],
            row["target_topic"],
            _ranges(row["partitions"]),
            _does(row, new=new),
            _offsets(row["begins"]),
            number(row["lag_records"]),
            *([_differences(row)] if policies else []),
        ]

    headings = (*_HEADINGS, "policy") if policies else _HEADINGS
    ways = (f"link {each['link']}: gaps: {each['gaps']['text']}" for each in document["links"])
    warnings = first_lines(
        [f"warning: {each}" for each in document["warnings"]], "warnings", all_rows=all_rows
    )
    topics = [
        line
        for kind, (words, shown) in _OF_TOPICS.items()
        for line in first_lines(
            [shown(each) for each in document["actions"] if each["action"] == kind], words, all_rows=all_rows
        )
    ]
    return Group(
        table_of_rows(_summary(document), headings, groups, cells, all_rows=all_rows),
        *map(Text, topics),
        *map(Text, ways),
        *map(Text, warnings),
    )


def _grown(action: Row) -> str:
    added, number_of_all = action["added"], action["partitions"]
    return f"{_topic(action)}: {added:,} partition{'s' if added > 1 else ''} to add, {number_of_all:,} in all"


def _changed(action: Row) -> str:
    changes = (
        f"{name} {config_shown(action['before'][name])} -> {config_shown(value)}"
        for name, value in action["configs"].items()
    )
    return f"{_topic(action)}: configs to change: {', '.join(changes)}"


def _kept(action: Row) -> str:
    parts = [
        f"{name}={config_shown(each['target'])}, kept (source: {config_shown(each['source'])})"
        for name, each in action["drift"].items()
    ]
    parts += [
        f"{name}={value} of the source is not known to its brokers"
        for name, value in action["unknown"].items()
    ]
    return f"{_topic(action)}: {'; '.join(parts)}"


def _topic(action: Row) -> str:
    return f"link {action['link']}: target topic {action['target_topic']}"


def _deleted(action: Row) -> str:
    becomes = "stays for now" if action["held"] else "is to be deleted"
    return f"{_topic(action)} {becomes}: {action['message']}"


# What is done to topics, beside that they are created: by its kind, what several are, and a line for each.
_OF_TOPICS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "add_partitions": ("topics that grow", _grown),
    "change_configs": ("topics whose configs change", _changed),
    "keep_configs": ("topics with configs of their own", _kept),
    "delete_topic": ("topics to delete", _deleted),
}


def _summary(document: dict[str, Any]) -> list[str]:
    lines = []
    for link in document["links"]:
        count = link["topics_to_create"]
        create = [f"{count:,} topic{'s' if count > 1 else ''} to create"] if count else []
        lines.append(summary_line(link["link"], link["summary"], *create))
    return lines if document["to_do"] else [*lines, "nothing to create, to begin or to mend"]


def _groups(actions: Iterable[Row]) -> Iterator[Row]:
    """Offsets, and what follows from them, may differ within a group; words do not."""
    found: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for each in actions:
        found[_key(each)].append(each)
    for rows in found.values():
        yield {
            **rows[0],
            "aligned_to": [offset for row in rows if (offset := row.get("align_to")) is not None],
            "partitions": sorted(row["partition"] for row in rows),
            "lag_records": lag_of(row["lag_records"] for row in rows),
            "begins": [begin for row in rows if (begin := _begin(row)) is not None],
        }


def _key(action: Row) -> tuple[Any, ...]:
    """All that a row says beside its offsets."""
    return (
        *(action[key] for key in ("action", "link", "source_topic", "target_topic", "state")),
        *(action.get(key) for key in ("message", "hint", "build")),
        action.get("align_to") is None,
        tuple(action["policy"].items()),
    )


def _begin(action: Row) -> int | None:
    offset = action.get("next_offset")
    return None if offset is None else max(offset, action.get("align_to") or 0)


def _does(row: Row, *, new: bool) -> str:
    if row["action"] in _WORDS:
        return f"{_WORDS[row['action']]}: {with_hint(row['message'], row.get('hint'))}"
    steps = ["create"] if new else []
    if row["aligned_to"]:
        first, last = min(row["aligned_to"]), max(row["aligned_to"])
        steps.append(f"align to {first:,}" if first == last else "align")
    if row["build"]:
        built = "build" if row["build"] == BuildPhase.FILLING else "let brokers remove fillers"
        steps.append(f"{built} (compacted: {KEEP_OFF})")
    return ", ".join([*steps, "copy"])


def _offsets(offsets: Sequence[int]) -> str:
    if not offsets:
        return ""
    first, last = min(offsets), max(offsets)
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in a row as their first and last: 0-19, 25."""
    found: list[list[int]] = []
    for each in numbers:
        if found and each == found[-1][-1] + 1:
            found[-1] = [found[-1][0], each]
        else:
            found.append([each])
    texts = ["-".join(map(str, each)) for each in found]
    more = [f"and {len(texts) - RANGES_SHOWN:,} more"] if len(texts) > RANGES_SHOWN else []
    return ", ".join(texts[:RANGES_SHOWN] + more)


def _differences(row: Row) -> str:
    """What this topic does otherwise than by default, in the config's words."""
    chosen = LinkPolicy.from_texts(row["policy"]).differences()
    return ", ".join(f"{key}: {value}" for key, value in chosen.items())
