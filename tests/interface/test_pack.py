"""`heliograph pack` as a user calls it: the result on stdout, progress on stderr, a clean message when it cannot."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from heliograph import __version__
from heliograph.engine import environment_files
from heliograph.engine.environment_archive import read_manifest
from heliograph.engine.environment_files import PackedFile
from heliograph.interface.cli import main as cli


@pytest.fixture(autouse=True)
def _small_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four files instead of thousands: what is in a whole one is tested where it is chosen."""
    (tmp_path / "source").mkdir()
    made = [PackedFile(path=tmp_path / "source" / name, name=f"lib/{name}") for name in "abcd"]
    for file in made:
        file.path.write_text("x" * 1000)
    monkeypatch.setattr(environment_files, "environment_files", lambda: made)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_pack_writes_the_archive_and_says_how_to_ship_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pack") == 0
    printed = capsys.readouterr()
    assert 'conf: {spark.archives: "heliograph-env.tar.gz#environment"}' in printed.out
    assert "100 %" in printed.err
    manifest = read_manifest(Path("heliograph-env.tar.gz"))
    assert manifest is not None
    assert manifest["heliograph"] == __version__


def test_pack_answers_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pack", "mine.tar.gz", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["archive"] == "mine.tar.gz"
    assert answer["size_bytes"] == Path("mine.tar.gz").stat().st_size
    assert answer["files"] == 4
    assert answer["spark_conf"] == {"spark.archives": "mine.tar.gz#environment"}
    assert set(answer["versions"]) == {"heliograph", "code", "python", "pyspark", "platform"}


def test_pack_to_a_place_that_cannot_be_written_exits_2_with_a_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("pack", "no/such/place.tar.gz") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error: cannot write no/such/place.tar.gz: No such file or directory" in printed.err
    assert "hint: name a place" in printed.err


@pytest.mark.parametrize("name", ["fifo", "", ".", "source"])
def test_pack_replaces_nothing_but_a_plain_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("fifo")
    assert run("pack", name) == 2
    printed = capsys.readouterr()
    assert "hint" in printed.err
    assert "%" not in printed.err  # it says so before the work
    assert Path("fifo").is_fifo()


def test_pack_writes_where_a_link_points_to() -> None:
    Path("link.tar.gz").symlink_to("real.tar.gz")
    assert run("pack", "link.tar.gz") == 0
    assert Path("link.tar.gz").is_symlink()
    assert read_manifest(Path("real.tar.gz")) is not None
