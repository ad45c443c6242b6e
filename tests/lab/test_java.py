from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from heliograph.lab import java
from heliograph.model.errors import LabError


@pytest.mark.parametrize(
    ("banner", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=y\nopenjdk version "21.0.2" 2024-01-16', 21),
        ("sh: not found", None),
    ],
)
def test_a_banner_tells_the_major_version(banner: str, major: int | None) -> None:
    assert java.parse_major(banner) == major


def _fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    chosen, other = _fake_java(tmp_path / "a", "17.0.1"), _fake_java(tmp_path / "b", "21.0.1")
    assert java.find_java({"JAVA_HOME": str(chosen), "PATH": f"{other}/bin:/bin"}) == chosen


def test_an_old_java_home_is_passed_over(tmp_path: Path) -> None:
    old, good = _fake_java(tmp_path / "old", "1.8.0_402"), _fake_java(tmp_path / "good", "21.0.1")
    assert java.find_java({"JAVA_HOME": str(old), "PATH": f"{good}/bin:/bin"}) == good


def test_without_any_java_the_error_names_what_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setattr(java, "_wheel_home", lambda: None)
    with pytest.raises(LabError, match="Java 11") as raised:
        java.find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert "pip install" in raised.value.hint


def test_the_wrapper_drops_only_the_argument_the_wheels_java_refuses(tmp_path: Path) -> None:
    real = tmp_path / "real java"
    real.write_text('#!/bin/sh\nfor each in "$@"; do echo "[$each]"; done\n')
    real.chmod(0o755)
    home = java.write_wrapper(tmp_path / "home", real)
    given = ["-cp", "a b/*", java.UNWANTED_ARGUMENT, "--add-modules=other", "", "-version"]
    done = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[-cp]", "[a b/*]", "[--add-modules=other]", "[]", "[-version]"]


def test_writing_the_wrapper_again_leaves_it_alone(tmp_path: Path) -> None:
    home = java.write_wrapper(tmp_path, Path("/bin/true"))
    before = (home / "bin" / "java").stat().st_ino
    java.write_wrapper(tmp_path, Path("/bin/true"))
    assert (home / "bin" / "java").stat().st_ino == before
