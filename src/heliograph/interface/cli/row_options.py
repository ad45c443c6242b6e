"""The options by which every command that lists partitions is told which of them: one meaning for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from heliograph.model.link import Link
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.states import PartitionState
from heliograph.operations.aim import topic_filters

TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:0,3]",
        help="This topic only, by its name at the source or a regular expression on the whole name; repeatable.",
        show_default=False,
    ),
]
StateOption = Annotated[
    list[PartitionState] | None,
    typer.Option("--state", help="List partitions in this state only; repeatable.", show_default=False),
]
LaggingOption = Annotated[
    bool,
    typer.Option(
        "--lagging", help="List only partitions with records left to copy, or whose lag is not known."
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="All rows, not only the first 50.")]


def chosen_rows(
    links: Sequence[Link],
    topic: Sequence[str] | None,
    state: Sequence[PartitionState] | None,
    *,
    lagging: bool,
) -> PartitionFilter:
    """A name that no link mirrors is wrong use."""
    return PartitionFilter(topics=topic_filters(links, topic or ()), states=state or (), lagging=lagging)
