"""Results on stdout, as a table, JSON or YAML.

Owns `-o` and `--json`. Must not know what is printed: a command gives plain data and a way to make a table.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, TypeVar

import typer
import yaml
from rich.console import Console, RenderableType

from heliograph.model.errors import OutputLost

Value = TypeVar("Value")

_PIPE_COLUMNS = 1000


class Format(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


FormatOption = Annotated[
    Format, typer.Option("-o", "--output", help="Form of the result.", show_default=True)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for -o json.", show_default=False)]


def chosen(output: Format, as_json: bool) -> Format:
    return Format.json if as_json else output


def emit(value: Value, form: Format, table: Callable[[Value], RenderableType]) -> None:
    """Print plain data (dicts, lists, text, numbers) in the form that was asked for."""
    with _to_stdout():
        _write(value, form, table)


def write(text: str) -> None:
    """Print a part of a result that is too long to be held as a whole, or still to come."""
    with _to_stdout():
        sys.stdout.write(text)


@contextmanager
def _to_stdout() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # who read it has enough
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest when it ends
        raise OutputLost(
            f"the result cannot be written to stdout: {problem.strerror}",
            hint="make room; a command that changes something has done so: `heliograph topics list` shows it",
        ) from problem


def _write(value: Value, form: Format, table: Callable[[Value], RenderableType]) -> None:
    if form is Format.json:
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    elif form is Format.yaml:
        sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    else:
        _console().print(table(value))


def _console() -> Console:
    # Made for each result, because stdout may be another one by then; no markup, since names hold brackets.
    # A pipe has no width: a row there must stay on its line.
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    return Console(file=sys.stdout, markup=False, highlight=False, emoji=False, width=width)
