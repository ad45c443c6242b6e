"""Secrets that are planted in a config are found nowhere while a mirror runs on Spark, nor in what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
import pytest
import yaml

from heliograph.lab.settings import free_ports
from tests.support.certificates import write_pkcs12
from tests.support.log_reader import read_topic
from tests.support.mirror_process import MirrorProcess
from tests.support.records import mixed_records
from tests.support.secured_clusters import USER, SecuredPair
from tests.support.topics import create_topic
from tests.support.workload import produce_records

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

STORE_PASSWORD = "planted-store-password-93b1"
RECORDS = 500
OWN_TOPICS = ("__heliograph_ledger", "__heliograph_events", "__heliograph_commands")
COMMANDS = (
    ["plan", "--json"],
    ["status", "--json"],
    ["topics", "list", "--json"],
    ["config", "validate", "--json"],
)
OF_SPARK = ("", "/environment", "/jobs", "/stages", "/executors", "/allexecutors", "/storage/rdd")


class Hunt:
    """What must not be found, and where it was. `common`: what must be found, or nothing was searched."""

    def __init__(self, secrets: Iterable[str], common: str) -> None:
        self._secrets = [secret.encode() for secret in secrets]
        self._common = common.encode()
        self.found: list[str] = []
        self.common: list[str] = []

    def search(self, where: str, content: bytes | str) -> None:
        data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
        self.found += [where for secret in self._secrets if secret in data]
        if self._common in data:
            self.common.append(where)


@pytest.fixture
def config(secured_pair: SecuredPair, unique_topic: Callable[[str], str], tmp_path: Path) -> Path:
    """By SCRAM from the source, its password in a properties file, to mutual TLS with a PKCS12 store."""
    source, target = secured_pair.source, secured_pair.target
    topic = unique_topic("hunted")
    create_topic(source.plain, topic, 2)
    produce_records(source.plain, topic, mixed_records(1, RECORDS))
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    password = source.credentials.users[USER]
    (hidden / "login.properties").write_text(f"password={password}\nstore={STORE_PASSWORD}\n")
    store = write_pkcs12(hidden / "client.p12", STORE_PASSWORD, issued=target.credentials.client)
    scram, mutual = source.access("SCRAM"), target.access("MUTUAL")
    login = scram.properties["sasl.jaas.config"].replace(
        password, f"${{file:{hidden}/login.properties:password}}"
    )
    document = {
        "clusters": {
            "src": {
                "bootstrap.servers": scram.bootstrap_servers,
                **scram.properties,
                "sasl.jaas.config": login,
            },
            "dst": {
                "bootstrap.servers": mutual.bootstrap_servers,
                **mutual.properties,
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(store),
                "ssl.keystore.password": f"${{file:{hidden}/login.properties:store}}",
            },
        },
        "links": {"link": {"source": "src", "target": "dst", "topics": [topic]}},
        "spark": {
            "master": "local[1]",
            "conf": {
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": str(_made(tmp_path / "event-log")),
                "spark.ui.port": str(free_ports(1)[0]),
            },
        },
    }
    path = tmp_path / "heliograph.yaml"
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def test_no_planted_secret_is_found_anywhere(
    config: Path, secured_pair: SecuredPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = secured_pair.source.credentials, secured_pair.target.credentials
    key = target.client.key_pem.decode().splitlines()[2]
    topic = yaml.safe_load(config.read_text())["links"]["link"]["topics"][0]
    hunt = Hunt([source.users[USER], STORE_PASSWORD, key], topic)
    left_behind = _made(tmp_path / "left-behind")
    monkeypatch.setenv("TMPDIR", str(left_behind))
    with MirrorProcess(config, "--log-level", "debug", "--json", runtime=left_behind) as run:
        run.wait_until(lambda: run.copied() >= RECORDS, "all records are copied")
        _search_processes(hunt, run)
        hunt.search("live socket", json.dumps(run.live()))
        _search_spark(hunt, yaml.safe_load(config.read_text())["spark"]["conf"]["spark.ui.port"])
        _search_files(hunt, tmp_path)
        _search_commands(hunt, config)
        run.terminate()
        code, out = run.wait()
        assert code == 0, run.log
        hunt.search("stdout", out)
        assert len(run.log) > 1000
    _search_files(hunt, tmp_path)
    assert any((tmp_path / "event-log").rglob("*"))
    _search_topics(hunt, secured_pair.target.plain)
    assert {"plan", "status", "topics list", "live socket", *OWN_TOPICS[:2]} <= set(hunt.common)
    assert hunt.found == []


def _search_processes(hunt: Hunt, run: MirrorProcess) -> None:
    living = [each for each in run.family() if each.status() != psutil.STATUS_ZOMBIE]
    assert len(living) >= 2  # Spark's JVM and a lane
    for process in (psutil.Process(run.pid), *living):
        hunt.search(f"arguments of {process.pid}", "\0".join(process.cmdline()))
        hunt.search(f"environment of {process.pid}", json.dumps(process.environ()))


def _search_spark(hunt: Hunt, port: str) -> None:
    """Its REST API and its pages."""
    address = f"http://127.0.0.1:{port}"
    root = f"{address}/api/v1/applications"
    (application,) = json.loads(_get(root))
    for path in OF_SPARK:
        hunt.search(f"Spark's REST: {path}", _get(f"{root}/{application['id']}{path}"))
    for page in ("environment", "jobs", "stages", "executors"):
        hunt.search(f"Spark's UI: {page}", _get(f"{address}/{page}/"))


def _get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert answer.status == 200
        content: bytes = answer.read()
        return content


def _search_files(hunt: Hunt, place: Path) -> None:
    """All but where the secrets were put."""
    for path in place.rglob("*"):
        if path.is_file() and (place / "hidden") not in path.parents:
            hunt.search(str(path), path.read_bytes())


def _search_commands(hunt: Hunt, config: Path) -> None:
    for command, *options in COMMANDS:
        words = [command, *options[:-1]] if len(options) > 1 else [command]
        named = ["-f", str(config)] if command == "topics" else [str(config)]
        line = [sys.executable, "-m", "heliograph.interface.cli.main", *words, *named, options[-1]]
        done = subprocess.run(line, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        hunt.search(" ".join(words), done.stdout + done.stderr)


def _search_topics(hunt: Hunt, bootstrap: str) -> None:
    for topic in OWN_TOPICS:
        for seen in (record for partition in read_topic(bootstrap, topic) for record in partition):
            hunt.search(topic, (seen.key or b"") + (seen.value or b"") + repr(seen.headers).encode())
