"""The command line's frame: results, messages and exit codes."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from heliograph import __version__
from heliograph.cluster.properties import HONOURED, OF_CLUSTER
from heliograph.interface.cli import main as cli
from heliograph.interface.cli import version
from heliograph.interface.config.example import EXAMPLE
from heliograph.model.errors import ClusterUnreachable

INSECURE = """
clusters:
  sf:  {bootstrap.servers: "a:1", security.protocol: SSL, ssl.endpoint.identification.algorithm: ""}
  nyc: {bootstrap.servers: "b:1"}
links: {l: {source: sf, target: nyc, topics: a}}
"""


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HELIOGRAPH_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def commands(group: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every visible command and group, by the words that call it."""
    found = [path]
    for name, command in getattr(group, "commands", {}).items():
        if not command.hidden:
            found += commands(command, (*path, name))
    return found


@pytest.mark.parametrize("words", commands(typer.main.get_command(cli.app)), ids=" ".join)
def test_every_help_ends_with_an_example(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words, "--help") == 0
    last = capsys.readouterr().out.strip().splitlines()[-1].strip()
    assert last.startswith("Example: heliograph ")


@pytest.mark.parametrize("name", cli.NOT_BUILT)
def test_a_command_that_is_not_built_says_so_and_is_not_in_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([name], [name, "--help"], [name, "list", "-o", "json"]):
        assert run(*arguments) == 2
        assert f"`heliograph {name}` is not built yet" in capsys.readouterr().err
    run("--help")
    assert f"│ {name} " not in capsys.readouterr().out


def test_version_tells_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("version", "--json") == 0
    versions = json.loads(capsys.readouterr().out)
    assert versions["heliograph"] == __version__
    assert set(versions) == {"heliograph", "python", "pyspark", "kafka-python"}
    assert run("version", "-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == versions
    assert run("version") == 0
    assert __version__ in capsys.readouterr().out


def test_the_printed_example_validates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "example") == 0
    printed = capsys.readouterr().out
    assert printed == EXAMPLE
    (tmp_path / "heliograph.yaml").write_text(printed)
    assert run("config", "validate") == 0
    assert "heliograph.yaml is valid" in capsys.readouterr().out


def test_problems_go_to_stderr_each_on_its_line_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("lanes: none")
    assert run("config", "validate", "bad.yaml") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "error: clusters: required",
        "error: links: required",
        "error: lanes: 'none' is neither auto nor a number from 1 to 999999",
        "hint: edit bad.yaml; `heliograph config example` shows every key that works",
    ]


def test_a_kafka_that_the_lab_cannot_run_is_a_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run("lab", "up", "sf", "--kafka", "banana") == 2
    assert "Kafka 'banana' is not a release the lab can run" in capsys.readouterr().err


def test_problems_can_be_had_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("lanes: 1")
    assert run("config", "validate", "-f", "bad.yaml", "--json") == 2
    assert json.loads(capsys.readouterr().out) == {
        "config": "bad.yaml",
        "valid": False,
        "problems": ["clusters: required", "links: required"],
    }


def test_what_a_valid_config_protects_too_little_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "heliograph.yaml").write_text(INSECURE)
    assert run("config", "validate") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("warning: cluster 'sf': ssl.endpoint.identification.algorithm is empty")
    assert shown[1] == "heliograph.yaml is valid: clusters sf, nyc; links l"
    assert run("config", "validate", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["valid"]
    assert [f"warning: {each}" for each in report["warnings"]] == shown[:1]


def test_the_schema_knows_the_keys_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "schema") == 0
    schema = json.loads(capsys.readouterr().out)
    assert {"clusters", "links", "lanes", "spark"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False
    cluster = schema["properties"]["clusters"]["additionalProperties"]
    assert set(cluster["properties"]) == {"properties_file", *HONOURED}
    link = schema["$defs"]["LinkSection"]["properties"]["consumer"]
    assert set(link["properties"]) == set(HONOURED) - OF_CLUSTER
    pattern = schema["$defs"]["LinkSection"]["properties"]["start"]["pattern"]
    for start in ("earliest", "latest", "-7d", "2026-01-31", "2026-01-31T12:00:00Z"):
        assert re.search(pattern, start)
    assert not any(re.search(pattern, start) for start in ("7d", "-7y", "now", ""))


@pytest.mark.parametrize("arguments", [["bogus"], ["version", "--bogus"], ["version", "-o", "xml"]])
def test_wrong_use_exits_2(arguments: list[str]) -> None:
    assert run(*arguments) == 2


@pytest.mark.parametrize("level_first", [True, False])
def test_a_traceback_is_shown_at_debug_only(level_first: bool, capsys: pytest.CaptureFixture[str]) -> None:
    debug, validate = ["--log-level", "debug"], ["config", "validate"]
    assert run(*(debug + validate if level_first else validate + debug)) == 2
    assert "Traceback" in capsys.readouterr().err
    assert run(*validate) == 2
    assert "Traceback" not in capsys.readouterr().err


def _failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(version, "_versions", fail)


def test_an_error_of_ours_exits_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _failing(ClusterUnreachable("sf does not answer", hint="is it up?"), monkeypatch)
    assert run("version") == 3
    assert capsys.readouterr().err == "error: sf does not answer\nhint: is it up?\n"


def test_an_internal_error_exits_4_and_says_where_to_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _failing(KeyError("oops"), monkeypatch)
    assert run("version") == 4
    printed = capsys.readouterr().err
    assert "internal error: KeyError: 'oops'" in printed
    assert "--log-level debug" in printed
    assert "Traceback" not in printed


def test_an_interrupt_exits_130_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _failing(KeyboardInterrupt(), monkeypatch)
    assert run("version") == 130
    assert "Traceback" not in capsys.readouterr().err


def test_logs_go_to_stderr_in_the_form_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    run("--log-format", "json", "version")
    capsys.readouterr()
    logging.getLogger("heliograph.test").info("hello %s", "you")
    logging.getLogger("heliograph.test").debug("hidden")
    logging.getLogger("library").info("hidden")
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = [json.loads(line) for line in printed.err.splitlines()]
    assert (line["level"], line["logger"], line["message"]) == ("info", "heliograph.test", "hello you")


def test_the_command_line_starts_without_spark() -> None:
    code = "import sys, heliograph.interface.cli.main; sys.exit(len({'pyspark', 'numba'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_result_that_cannot_be_written_is_said_and_exits_1() -> None:
    command = [sys.executable, "-m", "heliograph.interface.cli.main", "version", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the result cannot be written to stdout: No space left on device\n")
    assert "Traceback" not in done.stderr
