"""docs/EVENTS.md lists exactly the codes that the code tells, and every code is told somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import heliograph
from heliograph.model.events import Event, Severity, severity_of
from heliograph.model.states import StopReason

PACKAGE = Path(heliograph.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "EVENTS.md"
_ROW = re.compile(r"^\| `(\w+)` \| (.+) \| (.+) \|$", re.MULTILINE)


def test_the_page_lists_every_code_once_with_cause_and_remedy() -> None:
    rows = _ROW.findall(PAGE.read_text())
    codes = [code for code, _, _ in rows]
    assert sorted(codes) == sorted([*StopReason, *Event])
    assert all(cause.strip() and remedy.strip() for _, cause, remedy in rows)


@pytest.mark.parametrize("code", [*StopReason, *Event], ids=str)
def test_every_code_is_told_somewhere(code: Event | StopReason) -> None:
    assert is_told(code)


def is_told(code: Event | StopReason) -> bool:
    name = f"{type(code).__name__}.{code.name}"
    sources = [
        path for path in PACKAGE.rglob("*.py") if path.parent.name != "model" or path.stem == "admission"
    ]
    return any(re.search(rf"\b{re.escape(name)}\b", path.read_text()) for path in sources)


def test_no_code_means_two_things() -> None:
    assert not {*StopReason} & {*Event}


def test_no_warning_goes_past_the_outbox() -> None:
    """Only the log that listens to it writes them; what a library logs in a lane has no code, and is repeated."""
    past = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("warning", "error", "exception", "critical", "log")
        and ast.unparse(call.func.value) in ("log", "logging")
    ]
    assert [each.partition(":")[0] for each in past] == ["engine/lane_log.py", "model/occurrence_log.py"]


@pytest.mark.parametrize("code", [*StopReason, *Event], ids=str)
def test_a_stop_is_an_error_and_what_needs_no_remedy_is_for_information(code: Event | StopReason) -> None:
    remedies = {row[0]: row[2] for row in _ROW.findall(PAGE.read_text())}
    severity = severity_of(code)
    assert severity is Severity.ERROR or not isinstance(code, StopReason)
    assert severity is not Severity.INFO or remedies[code] == "none"
