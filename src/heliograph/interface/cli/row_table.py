"""Partitions for people, however many there are: a line for each link, the rows that matter most, how many more.

One piece of code for every command that lists partitions. Must not know what a row says beside its state and its lag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from heliograph.model.states import PartitionState

ROWS_SHOWN = 50
Row = dict[str, Any]


def rows_of_links(links: Iterable[Row]) -> list[Row]:
    """Of all links together, each row with the name of its link."""
    return [{"link": link["link"], **row} for link in links for row in link["partitions"]]


def table_of_rows(
    summary: Sequence[str],
    headings: Sequence[str],
    rows: Sequence[Row],
    cells: Callable[[Row], Sequence[str]],
    *,
    all_rows: bool,
    for_all: str = "--all",
) -> RenderableType:
    """`rows` have at least `state` and `lag_records`. `for_all`: what shows those that are left out."""
    shown = most_urgent(rows, len(rows) if all_rows else ROWS_SHOWN)
    table = Table()
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in shown:
        table.add_row(*cells(row))
    rest = [f"{len(rows) - len(shown):,} more: {for_all}"] if len(shown) < len(rows) else []
    return Group(*map(Text, summary), *([table] if shown else []), *map(Text, rest))


def first_lines(lines: Sequence[str], name: str, *, all_rows: bool) -> Iterator[str]:
    """Of what is said beside the rows, and is called so, no more than of rows."""
    shown = lines if all_rows else lines[:ROWS_SHOWN]
    yield from shown
    if len(shown) < len(lines):
        yield f"{len(lines) - len(shown):,} more {name}: --all"


def most_urgent(rows: Iterable[Row], count: int) -> list[Row]:
    """Stopped ones first, then by lag; else in their order."""
    return nsmallest(count, rows, key=_urgency)


def _urgency(row: Row) -> tuple[bool, int, bool]:
    """A lag that is not known is behind those that are, and before none."""
    lag = row["lag_records"]
    return row["state"] != PartitionState.STOPPED, -(lag or 0), lag is not None


def summary_line(link: str, summary: Iterable[Row], *more: str) -> str:
    """`summary`: as of model/state_summary.py."""
    states = [f"{each['partitions']:,} {each['state']}{_lag(each)}" for each in summary]
    return f"link {link}: " + "; ".join([", ".join(states) or "no partitions", *more])


def _lag(each: Row) -> str:
    lag = each["lag_records"]
    if lag is None:
        return " (lag not known)"
    return f" (lag {lag:,})" if lag else ""


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def with_hint(message: str | None, hint: str | None) -> str:
    return f"{message}. {hint or ''}".strip() if message else ""
