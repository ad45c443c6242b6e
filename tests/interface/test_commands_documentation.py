"""docs/COMMANDS.md has `plan`, `status`, `events` and all of `heliograph topics`, with every option and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from heliograph.cluster.own_topics import EVENTS_LAST_MS
from heliograph.interface.cli import main as cli
from heliograph.interface.cli import topics
from heliograph.interface.cli.events import DEFAULT_SINCE
from heliograph.interface.cli.row_table import ROWS_SHOWN
from heliograph.model.admission import MOST_LOST_OFFSETS
from heliograph.operations.answers import ALL_S, FIRST_ANSWER_S
from heliograph.operations.event_absence import AWAY_S
from heliograph.operations.event_reading import PATIENCE_S
from tests.controller.test_action_document import ALL, encoded
from tests.operations.played_events import recorded

PAGE = (Path(__file__).parents[2] / "docs" / "COMMANDS.md").read_text(encoding="utf-8")
HEAD, *SECTIONS = re.split(r"^## ", PAGE, flags=re.M)
SECTION_OF = {title: body for title, _, body in (each.partition("\n") for each in SECTIONS)}
GROUP: Any = typer.main.get_command(topics.app)
TOPICS: dict[str, Any] = GROUP.commands
TOP: Any = typer.main.get_command(cli.app)
COMMANDS: dict[str, Any] = {**TOPICS, "events": TOP.commands["events"]}
LISTING: dict[str, Any] = {
    "list": COMMANDS["list"],
    **{name: TOP.commands[name] for name in ("plan", "status")},
}
ANY_SIZE = "Output at any size"
ENCODED = [encoded(action) for action in ALL.actions]
EVENT = recorded("a lane is up")


def options_of(command: Any) -> set[str]:
    names = [name for each in command.params if each.param_type_name == "option" for name in each.opts]
    return {name for name in names if name not in ("--help", "-h")}


def documented(text: str) -> set[str]:
    """In the first cells of tables."""
    cells = re.findall(r"^\| (`-.+?) \|", text, re.M)
    return {name for cell in cells for name in re.findall(r"`(--?[a-z-]+)", cell)}


def test_every_command_has_a_section_and_an_example() -> None:
    assert set(SECTION_OF) - {"Rights", ANY_SIZE} == set(COMMANDS) | set(LISTING)
    for name in COMMANDS:
        assert f"heliograph {'' if name == 'events' else 'topics '}{name} " in HEAD


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in LISTING])
def test_every_option_of_a_command_is_documented_and_no_other(name: str) -> None:
    assert documented(HEAD) | documented(SECTION_OF[name]) == options_of(COMMANDS[name])


@pytest.mark.parametrize("name", LISTING)
def test_what_lists_partitions_has_the_options_of_all_that_do_so(name: str) -> None:
    shared = documented(HEAD) | documented(SECTION_OF[ANY_SIZE])
    assert shared | documented(SECTION_OF[name]) == options_of(LISTING[name])


def test_every_kind_of_action_is_documented_with_its_values_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z]+_[a-z]+)` \| .+ \| (.+) \|$", SECTION_OF["plan"], re.M)
    told = {kind: set(re.findall(r"`([a-z_]+)`", values)) for kind, values in rows}
    shared = set(re.findall(r"`([a-z_]+)`", re.findall(r"^Each has .+?\.$", SECTION_OF["plan"], re.M)[0]))
    assert set(told) == {each["action"] for each in ENCODED}
    for each in ENCODED:
        assert told[each["action"]] == set(each) - shared - {"action"}


def test_the_rows_that_are_shown_are_as_many_as_the_page_says() -> None:
    assert f"at most {ROWS_SHOWN} rows" in PAGE


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"More than\n{MOST_LOST_OFFSETS:,} offsets" in PAGE
    assert f"waits {FIRST_ANSWER_S:.0f} s" in PAGE
    assert f"{ALL_S / 60:.0f} minutes at most" in PAGE
    assert f"Without it `{DEFAULT_SINCE}`" in PAGE
    assert f"the newest {ROWS_SHOWN}" in PAGE
    assert f"does not answer for {AWAY_S:.0f} s" in PAGE
    assert f"has left for more than {PATIENCE_S:.0f} s" in PAGE
    assert f"kept for {EVENTS_LAST_MS / 86_400_000:.0f} days" in PAGE


def test_every_field_of_an_event_is_documented() -> None:
    (line,) = re.findall(r"^An object has (.*?);", PAGE, re.M | re.S)
    assert re.findall(r"`(\w+)`", line) == [*EVENT.document]


def test_every_line_of_a_shell_names_a_command_that_is_there() -> None:
    lines = re.findall(r"^heliograph topics (\w+)", PAGE, re.M)
    assert lines
    assert set(lines) <= set(TOPICS)
    assert "topics" not in cli.NOT_BUILT
