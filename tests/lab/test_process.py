from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.lab.process import ProcessRecord, read_record, start_detached


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[ProcessRecord]:
    record = start_detached(["sleep", "314"], argument="314", log_path=tmp_path / "log")
    yield record
    record.end(signal.SIGKILL, timeout_s=5)


def test_a_process_is_recognised_by_what_was_written_down(sleeper: ProcessRecord, tmp_path: Path) -> None:
    sleeper.write(tmp_path / "process.json")
    found = read_record(tmp_path / "process.json")
    assert found == sleeper
    assert found.is_running()


def test_another_start_time_or_argument_is_another_process(sleeper: ProcessRecord) -> None:
    for other in (replace(sleeper, started_at=sleeper.started_at - 60), replace(sleeper, argument="999")):
        assert not other.is_running()
        assert other.end(signal.SIGKILL, timeout_s=1)
    assert sleeper.is_running()


def test_an_ended_process_is_gone_at_once(sleeper: ProcessRecord) -> None:
    assert sleeper.end(signal.SIGKILL, timeout_s=5)
    assert not sleeper.is_running()


def test_a_process_that_outlives_the_signal_is_not_called_gone(sleeper: ProcessRecord) -> None:
    assert not sleeper.end(signal.SIGCONT, timeout_s=0.05)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_broken_record_is_no_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "process.json").write_text(text)
    assert read_record(tmp_path / "process.json") is None
