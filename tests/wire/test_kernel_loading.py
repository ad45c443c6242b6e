"""Loading kernels: in a thread, from a cache that may be missing, and never by importing the package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.wire.kernels import machine_code
from heliograph.wire.kernels.loading import Kernels, failure, loaded, ready
from heliograph.wire.kernels.proof import prove

ROOT = Path(__file__).parents[2]


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_copier_and_its_wire_does_not_import_numba() -> None:
    code = "import sys, heliograph.copier.lane, heliograph.wire.merge, heliograph.wire.runs, heliograph.wire.compare"
    assert run(f"{code}; print('numba' in sys.modules)") == "False"


def test_what_waits_gets_kernels_and_says_so(kernels: Kernels) -> None:
    assert loaded() is kernels
    assert ready()
    assert failure() is None


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("scan", lambda *_: (1, 151)),
        ("join", lambda *_: True),
        ("match", lambda *_: (1, 9)),
        ("split", lambda *_: 1),
        ("carve", lambda *_: 0),
        ("gather", lambda *_: 1),
        ("convert", lambda *_: 1),
        ("densify", lambda *_: 0),
        ("find_fillers", lambda *_: (0, -1)),
        ("match_dense", lambda *_: (1, 10)),
    ],
)
def test_a_kernel_that_gives_wrong_answers_is_not_used(
    kernels: Kernels, name: str, wrong: Callable[..., Any]
) -> None:
    prove(kernels)
    with pytest.raises(RuntimeError, match=f"kernel {name} does not"):
        prove(replace(kernels, **{name: wrong}))


def test_where_numba_may_not_compile_batches_go_as_they_are() -> None:
    code = """
from heliograph.wire.kernels import loading
from heliograph.model.errors import HeliographError
try:
    loading.wait()
except HeliographError as error:
    print(loading.ready(), error.message)
"""
    said = run(code, NUMBA_DISABLE_JIT="1")
    assert said == (
        "False the compiled kernels cannot be used: numba is told not to compile (NUMBA_DISABLE_JIT)"
    )


def test_a_start_does_not_wait_and_an_end_does_not_break_it() -> None:
    code = """
import time
from heliograph.wire.kernels import loading
begun = time.monotonic()
loading.start()
print(loading.ready(), time.monotonic() - begun < 0.3)
"""
    assert run(code) == "False True"  # and the process ends well, in the middle of loading


def test_without_a_directory_that_can_be_written_kernels_are_compiled_in_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way of a directory")
    code = """
from heliograph.wire.kernels import loading, machine_code
assert machine_code.directory() is None
from heliograph.wire.kernels.compiler import I64, kernel
def twice(number): return 2 * number
print(kernel(I64(I64))(twice)(21))
"""
    assert run(code, NUMBA_CACHE_DIR=str(blocked), XDG_CACHE_HOME=str(blocked)) == "42"


def test_machine_code_is_kept_under_the_users_cache_by_its_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine_code.directory.cache_clear()
    try:
        place = machine_code.directory()
        assert place is not None
        assert Path(place).parent == tmp_path / "heliograph" / "kernels"
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "own"))
        machine_code.directory.cache_clear()
        assert machine_code.directory() == str(tmp_path / "own" / Path(place).name)
    finally:
        machine_code.directory.cache_clear()


def test_machine_code_that_others_could_have_written_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    machine_code.directory.cache_clear()
    try:
        place = machine_code.directory()
        assert place is not None
        assert Path(place).stat().st_mode & 0o777 == 0o700
        Path(place).chmod(0o777)
        machine_code.directory.cache_clear()
        assert machine_code.directory() is None
    finally:
        machine_code.directory.cache_clear()


def test_a_place_is_filled_once_this_kind_of_machine_has_loaded_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    machine_code.directory.cache_clear()
    try:
        assert not machine_code.is_filled()
        machine_code.note_filled()
        assert machine_code.is_filled()
        monkeypatch.setattr("llvmlite.binding.get_host_cpu_name", lambda: "another")
        assert not machine_code.is_filled()
        monkeypatch.setitem(sys.modules, "llvmlite", None)  # as if it were not installed
        assert not machine_code.is_filled()
    finally:
        machine_code.directory.cache_clear()
