"""What `heliograph topics list` prints: beside the state of a partition, why it is so and what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from heliograph.interface.cli.row_table import Row, number, rows_of_links, summary_line, table_of_rows
from heliograph.model.command import Outcome

_HEADINGS = ("link", "topic", "partition", "state", "code", "since", "source", "next", "lag", "about")
_OVER = (("resume", Outcome.APPLIED), ("remirror", Outcome.APPLIED))  # nothing is left to say of these


def table_of(document: dict[str, Any], *, all_rows: bool = False) -> RenderableType:
    links = document["links"]
    summary = [
        summary_line(link["link"], link["summary"], *([link["error"]] if link["error"] else []))
        for link in links
    ]
    return table_of_rows(summary, _HEADINGS, rows_of_links(links), _cells, all_rows=all_rows)


def _cells(row: Row) -> list[str]:
    return [
        row["link"],
        row["source_topic"],
        str(row["partition"]),
        row["state"],
        row["code"] or "",
        row["since"] or "",
        f"{number(row['source_start'])} to {number(row['source_end'])}",
        number(row["next_offset"]),
        number(row["lag_records"]),
        "; ".join(_words(row)),
    ]


def _words(row: Row) -> Iterator[str]:
    if row["message"]:
        yield row["message"]
    if row["hint"]:
        yield row["hint"]
    for wished in (row["command"], row["remirror"]):
        if wished is not None and (wished["wish"], wished["outcome"]) not in _OVER:
            yield _wish(wished)


def _wish(wished: dict[str, Any]) -> str:
    outcome = wished["outcome"]
    told = {None: ", not read by a mirror yet", Outcome.APPLIED: ""}.get(
        outcome, f", {outcome}: {wished['message']}"
    )
    return f"{wished['wish']} asked by {wished['author']} at {wished['at']}{told}"
