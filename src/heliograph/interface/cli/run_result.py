"""What `heliograph run` says when it is over: whether all reached the ends as of its start, and which did not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.interface.cli.row_table import Row, number, summary_line, table_of_rows, with_hint
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.state_summary import summarise
from heliograph.model.states import PartitionState

_HEADINGS = ("link", "topic", "partition", "state", "next offset", "goal", "lag", "error")


def result_of(board: Any) -> dict[str, Any]:
    rows = list(board.rows.values())
    return {
        "caught_up": board.finished and not (board.stopped or board.awaiting_topics or board.paused),
        "copied_records": board.copied_records,
        "copied_bytes": board.copied_bytes,
        "links": _links(rows),
        "partitions": [
            {
                **row.partition._asdict(),  # link, source_topic, target_topic, partition
                "state": str(_state(row)),
                "next_offset": row.next_offset,
                "goal": row.goal,
                "lag_records": _lag(row),
                "error": row.problem if row.awaits_topic or row.state is PartitionState.PAUSED else row.error,
                "hint": row.hint,
            }
            for row in rows
        ],
    }


def _links(rows: Iterable[PartitionStatus]) -> list[dict[str, Any]]:
    stands: defaultdict[str, list[tuple[PartitionState, int | None]]] = defaultdict(list)
    for row in rows:
        stands[row.partition.link].append((_state(row), _lag(row)))
    return [{"link": link, "summary": summarise(each)} for link, each in stands.items()]


def _state(row: PartitionStatus) -> PartitionState:
    """A partition that reached its goal needs no lane any more to be caught up."""
    waiting = row.state is PartitionState.PENDING
    return PartitionState.CAUGHT_UP if waiting and row.goal is not None and row.reached_goal else row.state


def _lag(row: PartitionStatus) -> int | None:
    """Behind its goal: what has come to the source since is none of this run's business."""
    if row.goal is None or row.next_offset is None:
        return None
    return max(row.goal - row.next_offset, 0)


def table_of(result: dict[str, Any]) -> RenderableType:
    """No option of `run` shows more: it would be taken for what is to be mirrored."""
    verdict = "caught up" if result["caught_up"] else "NOT caught up"
    title = f"{verdict}: {result['copied_records']:,} records, {result['copied_bytes']:,} bytes copied"
    summary = [summary_line(each["link"], each["summary"]) for each in result["links"]]
    rows = table_of_rows(
        summary,
        _HEADINGS,
        result["partitions"],
        _cells,
        all_rows=False,
        for_all="heliograph status --all",
    )
    return Group(Text(title), rows)


def _cells(row: Row) -> list[str]:
    return [
        row["link"],
        row["source_topic"],
        str(row["partition"]),
        row["state"],
        number(row["next_offset"]),
        "" if row["goal"] is None else f"{row['goal']:,}",
        number(row["lag_records"]),
        with_hint(row["error"], row["hint"]),
    ]
