from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from heliograph.interface.demo.child import Child
from heliograph.model.errors import HeliographError


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of that name which a child can run."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    return tmp_path / "played_child.py"


def test_a_child_waits_for_its_word_and_is_heard(module: Path) -> None:
    module.write_text(
        "import json, sys\nassert sys.stdin.readline() == 'go\\n'\nprint(1)\nprint(json.dumps([2, sys.argv[1]]))\n"
    )
    child = Child("played_child", "three")
    child.go()
    assert child.last_words() == [2, "three"]
    child.end()


def test_a_child_that_fails_is_an_error(module: Path) -> None:
    module.write_text("raise SystemExit(3)\n")
    child = Child("played_child")
    with pytest.raises(HeliographError, match="played_child process failed"):
        child.last_words()
    child.end()


def test_a_child_that_never_ends_is_ended(module: Path) -> None:
    module.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    child = Child("played_child")
    heard: list[int] = []
    while not heard:
        heard = child.heard()
    child.end()
    with pytest.raises(ProcessLookupError):
        os.kill(heard[0], 0)
