"""Tables stay as short, however many partitions there are: what is left out is counted; what is stopped is first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from heliograph.controller.board import Board
from heliograph.controller.gap_filling import UNREAD
from heliograph.controller.plan import AwaitPartition, Plan
from heliograph.controller.plan_document import plan_document
from heliograph.interface.cli import plan_table, run_result, status, topics_table
from heliograph.interface.cli.row_table import ROWS_SHOWN, Row, first_lines, most_urgent, summary_line
from heliograph.model.link_status import LinkStatus, RoleName, published_link
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.policy import DEFAULT_POLICY, OnLoss, TopicPolicy
from heliograph.model.states import PartitionState
from heliograph.operations.listing import list_document
from tests.controller.observed import LINK, copy, refusal
from tests.operations.scene import NOW, look, sight, stop_row

MANY = 10_000
PER_TOPIC = 20
FRAME = 4  # borders and headings of a table
COPYING, STOPPED, CAUGHT_UP = PartitionState.COPYING, PartitionState.STOPPED, PartitionState.CAUGHT_UP

Stand = tuple[PartitionState, int | None]
stands = st.tuples(st.sampled_from(PartitionState), st.none() | st.integers(0, 1000))


def text_of(shown: RenderableType) -> str:
    """As in a pipe: a row is a line."""
    printed = StringIO()
    Console(file=printed, width=1000).print(shown)
    return printed.getvalue()


def where(number: int, link: str = "sf-to-nyc") -> MirrorPartition:
    topic = f"topic-{number // PER_TOPIC}"
    return MirrorPartition(link, topic, topic, number % PER_TOPIC)


def status_of(stand: list[Stand], link: str = "sf-to-nyc", **said: Any) -> LinkStatus:
    rows = (
        PartitionStatus(
            partition=where(number, link),
            state=state,
            next_offset=0,
            source_end=lag,
            error="why" if state is STOPPED else None,
        )
        for number, (state, lag) in enumerate(stand)
    )
    return LinkStatus(link=link, partitions=tuple(rows), **said)


def status_text(
    *links: LinkStatus, shown: PartitionFilter | None = None, all_rows: bool = False
) -> list[str]:
    documents = [published_link(link, shown or PartitionFilter()) for link in links]
    return text_of(status.table_of({"links": documents}, all_rows=all_rows)).splitlines()


# -- every command, at any size


def many_in_status(count: int) -> RenderableType:
    return status.table_of({"links": [published_link(status_of([(COPYING, 5)] * count))]})


def many_in_list(count: int) -> RenderableType:
    seen = look(*[sight((0, 100), (0, 90))] * count)
    return topics_table.table_of(list_document([(seen.status, seen.partitions)], PartitionFilter(), NOW))


def many_in_plan(count: int) -> RenderableType:
    """One in a hundred is refused."""
    planned = Plan(
        creations=(),
        copies=tuple(copy(where(number)) for number in range(count) if number % 100),
        refusals=tuple(refusal(where(number)) for number in range(0, count, 100)),
        warnings=("careful",) * count,
    )
    return plan_table.table_of(plan_document(planned, [LINK], {LINK.name: UNREAD}))


def many_in_run(count: int) -> RenderableType:
    return run_result.table_of(run_result.result_of(Board([copy(where(n)) for n in range(count)], [])))


MORE = f"{MANY - ROWS_SHOWN:,} more"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (many_in_status, {f"{MORE}: --all"}),
        (many_in_list, {f"{MORE}: --all"}),
        # 100 refusals, each the only one of its topic, and what else there is of 500 topics
        (many_in_plan, {"550 more: --all", f"{MORE} warnings: --all"}),
        (many_in_run, {f"{MORE}: heliograph status --all"}),
    ],
)
def test_ten_thousand_partitions_take_as_many_lines_as_some_hundred(
    made: Callable[[int], RenderableType], says: set[str]
) -> None:
    some, many = (text_of(made(count)).splitlines() for count in (30 * ROWS_SHOWN, MANY))
    assert len(some) == len(many) <= 2 * (ROWS_SHOWN + FRAME)
    assert {line for line in many if " more" in line} == says
    assert max(map(len, many)) < 300


def test_a_run_that_is_over_says_which_command_shows_the_rest() -> None:
    assert text_of(many_in_run(60)).splitlines()[-1] == "10 more: heliograph status --all"


@settings(deadline=None)  # what comes first may be slow: a Console looks up its encodings
@given(st.lists(stands, max_size=120), st.booleans())
def test_rows_and_what_is_left_out_are_all_there_is(stand: list[Stand], all_rows: bool) -> None:
    lines = status_text(status_of(stand), all_rows=all_rows)
    rows = [line for line in lines if "sf-to-nyc │" in line]
    more = [int(line.split()[0]) for line in lines if line.endswith(" more: --all")]
    assert len(rows) + sum(more) == len(stand)
    assert len(rows) == (len(stand) if all_rows else min(len(stand), ROWS_SHOWN))


@given(st.lists(stands, max_size=120), st.integers(0, 60))
def test_stopped_ones_come_first_then_those_that_lag_most(stand: list[Stand], count: int) -> None:
    def place(row: Row) -> tuple[bool, int]:
        return row["state"] is not STOPPED, -(row["lag_records"] or 0)

    rows = [{"state": state, "lag_records": lag} for state, lag in stand]
    shown = most_urgent(rows, count)
    assert [place(row) for row in shown] == sorted(map(place, rows))[:count]


# -- what is said of links


def test_a_link_is_said_to_stand_as_all_its_partitions_do_whatever_is_listed() -> None:
    link = status_of([(STOPPED, 7), (COPYING, 1_000), (COPYING, 500), (CAUGHT_UP, 0), (COPYING, None)])
    for shown in (PartitionFilter(), PartitionFilter(states={CAUGHT_UP})):
        lines = status_text(link, shown=shown)
        assert lines[0] == "link sf-to-nyc: 1 stopped (lag 7), 3 copying (lag not known), 1 caught_up"
    assert [line.count("topic-0") for line in lines].count(1) == 1


def test_links_say_that_they_stand_by_or_are_away_and_how_old_their_lag_is() -> None:
    rows = (PartitionStatus(partition=where(0), state=COPYING, next_offset=1, source_end=4, lag_ms=1_500),)
    lines = status_text(
        LinkStatus(link="late", partitions=rows),
        LinkStatus(link="second", role=RoleName.STANDBY),
        LinkStatus(link="away", error="sf does not answer", hint="is it up?"),
    )
    assert lines[:3] == [
        "link late: 1 copying (lag 3); the first record that is not copied is 1,500 ms old",
        "link second: no partitions; standby",
        "link away: no partitions; sf does not answer. is it up?",
    ]


def test_rows_of_several_links_are_sorted_together() -> None:
    lines = status_text(
        status_of([(COPYING, 5)], link="a"),
        status_of([(STOPPED, 1)], link="b"),
        status_of([(COPYING, 9)], link="c"),
    )
    assert [line.split()[1] for line in lines if "topic-0" in line] == ["b", "c", "a"]


def test_a_line_has_a_lag_only_where_there_is_one() -> None:
    summary = [{"state": "caught_up", "partitions": 10_000, "lag_records": 0}]
    assert summary_line("l", summary, "and so on") == "link l: 10,000 caught_up; and so on"


def test_lines_beside_the_rows_are_no_more_than_rows() -> None:
    lines = [str(number) for number in range(60)]
    assert [*first_lines(lines, "words", all_rows=False)] == [*lines[:50], "10 more words: --all"]
    assert [*first_lines(lines, "words", all_rows=True)] == lines


# -- plans: by topic


def plan_lines(planned: Plan, **changed: Any) -> list[str]:
    link = replace(LINK, **changed)
    text = text_of(plan_table.table_of(plan_document(planned, [link], {link.name: UNREAD})))
    return [line for line in text.splitlines() if "topic-" in line]


def test_partitions_of_a_topic_that_are_treated_alike_take_one_row() -> None:
    copies = [copy(where(number), next_offset=number) for number in range(2 * PER_TOPIC) if number != 5]
    planned = Plan(creations=(), copies=tuple(copies), refusals=(refusal(where(5)),), warnings=())
    refused, first, second = plan_lines(planned)
    assert "│ 5 " in refused
    assert "refuse: somebody else wrote it. delete it" in refused
    cells = [[cell.strip() for cell in line.split("│")[2:]] for line in (first, second)]
    assert cells[0][:6] == ["topic-0", "topic-0", "0-4, 6-19", "copy", "0 to 19", "1,715"]
    assert cells[1][:6] == ["topic-1", "topic-1", "0-19", "copy", "20 to 39", "1,410"]


def test_what_is_said_of_one_partition_alone_has_its_own_row() -> None:
    gone = replace(refusal(where(1)), why=replace(refusal(where(1)).why, message="offsets 5 to 7 are gone"))
    refusals = (refusal(where(0)), gone, refusal(where(2)))
    rows = plan_lines(Plan(creations=(), copies=(), refusals=refusals, warnings=()))
    assert ["│ 0, 2 " in row for row in rows] == [True, False]
    assert "offsets 5 to 7 are gone" in rows[1]


def test_an_alignment_is_said_with_its_offset_where_there_is_one() -> None:
    def aligned(*offsets: int) -> str:
        copies = tuple(replace(copy(where(n)), align_to=offset) for n, offset in enumerate(offsets))
        (row,) = plan_lines(Plan(creations=(), copies=copies, refusals=(), warnings=()))
        return row

    assert "│ align to 40, copy │ 40 " in aligned(40, 40)
    assert "│ align, copy │ 40 to 50 " in aligned(50, 40)


def test_partitions_that_are_scattered_are_counted() -> None:
    copies = tuple(copy(MirrorPartition("sf-to-nyc", "topic-0", "t", number)) for number in range(0, 400, 2))
    (row,) = plan_lines(Plan(creations=(), copies=copies, refusals=(), warnings=()))
    assert "│ 0, 2, 4, 6, 8, 10, 12, 14, and 192 more │" in row


def test_a_policy_that_is_not_the_default_is_shown() -> None:
    entry = TopicPolicy(match="topic-1", policy=replace(DEFAULT_POLICY, on_loss=OnLoss.CONTINUE))
    copies = (copy(where(0)), copy(where(PER_TOPIC)))
    rows = plan_lines(Plan(creations=(), copies=copies, refusals=(), warnings=()), policies=(entry,))
    assert ["on_loss: continue" in row for row in rows] == [False, True]


def test_what_waits_for_a_topic_is_one_row_with_the_line_that_creates_it() -> None:
    awaited = tuple(
        AwaitPartition(partition=where(number), goal=10, why="w", command="kafka-topics.sh --create")
        for number in range(PER_TOPIC)
    )
    (row,) = plan_lines(Plan(creations=(), copies=(), refusals=(), warnings=(), awaited=awaited))
    assert "│ 0-19 " in row
    assert row.count("kafka-topics.sh --create") == 1


def test_a_stop_that_is_recorded_is_first_of_ten_thousand() -> None:
    seen = look(*[sight((0, 100), (0, 90))] * 2_000, rows=[stop_row(1_999)])
    document = list_document([(seen.status, seen.partitions)], PartitionFilter(), NOW)
    rows = [line for line in text_of(topics_table.table_of(document)).splitlines() if "orders" in line]
    assert "why: lost" in rows[0]
