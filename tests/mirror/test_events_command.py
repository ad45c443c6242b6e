"""`heliograph events` on real clusters: what runs have written is read, followed, and neither lost nor doubled."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import parse_properties
from heliograph.controller.event_writer import EventWriter, events_targets
from heliograph.interface.cli import main as cli
from heliograph.lab.cluster import LabCluster
from heliograph.model.clock import time_of_day
from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event
from heliograph.model.ledger import EVENTS_TOPIC
from heliograph.model.link import Link
from heliograph.model.occurrence import Occurrence, of_stop
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason

pytestmark = pytest.mark.kafka

NOWHERE = "127.0.0.1:1"  # the source: nobody asks it
PRINTED_LIMIT_S = 90.0


def config(directory: Path, **links: str) -> Path:
    """Links by name, and where each leads."""
    document = {
        "version": 1,
        "clusters": {
            "src": {"bootstrap.servers": NOWHERE},
            **{f"to-{name}": {"bootstrap.servers": servers} for name, servers in links.items()},
        },
        "links": {name: {"source": "src", "target": f"to-{name}", "topics": ["orders"]} for name in links},
    }
    path = directory / "heliograph.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def tell(cluster: LabCluster, *told: Occurrence) -> None:
    """As a run does. All that is about one link."""
    names = {each.link for each in told} - {None}
    link = Link(
        name=str(min(map(str, names), default="none")), source="src", target="dst", topics=("orders",)
    )

    async def write() -> None:
        client = ClusterClient("dst", parse_properties({"bootstrap.servers": cluster.bootstrap_servers}))
        await client.connect()
        outbox = Outbox()
        writer = EventWriter(events_targets([link], lambda _link: client), outbox)
        try:
            writer.start()
            outbox.attach(writer)
            for each in told:
                outbox.put(each)
        finally:
            await writer.aclose(limit_s=30.0)
            await client.aclose()
        assert outbox.counts.get(Event.NO_LEDGER) is None

    asyncio.run(write())


def lane_up(link: str, message: str, age_s: float = 0.0, now: datetime | None = None) -> Occurrence:
    at = (now or time_of_day()) - timedelta(seconds=age_s)
    return Occurrence(at=at, code=Event.LANE_UP, message=message, link=link)


def lost(link: str) -> Occurrence:
    stop = PartitionStop(StopReason.LOST, "they are gone", hint="raise it", first_offset=20, next_offset=50)
    return of_stop(MirrorPartition(link, "orders", "orders", 3), stop, time_of_day())


def without_others(err: str) -> str:
    """Less what is said of records that other tests have written to the shared topic, and that are no events."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if "it is left out, and so is every other like it" not in line)


class Operator:
    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._path, self._capsys = path, capsys

    def ask(self, *words: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["events", "-f", str(self._path), *words])
        printed = self._capsys.readouterr()
        return ended.value.code, printed.out, without_others(printed.err)

    def events(self, *words: str) -> list[dict[str, Any]]:
        code, out, err = self.ask(*words, "--json")
        assert (code, err) == (0, "")
        document = json.loads(out)
        assert document["schema"] == "heliograph.events/1"
        return list(document["events"])


@contextmanager
def following(path: Path, directory: Path, *words: str) -> Iterator[Follower]:
    follower = Follower(path, directory, words)
    try:
        yield follower
    finally:
        follower.end()


class Follower:
    """`heliograph events --follow --json`, a process of its own."""

    def __init__(self, path: Path, directory: Path, words: Sequence[str]) -> None:
        self._out, self._err = directory / "followed.out", directory / "followed.err"
        command = [sys.executable, "-m", "heliograph.interface.cli.main", "events", "-f", str(path)]
        with self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen([*command, "--follow", "--json", *words], stdout=out, stderr=err)

    @property
    def messages(self) -> list[str]:
        """Of whole lines."""
        lines = re.findall(r"^.*\n", self._out.read_text(), re.M)
        return [json.loads(line)["message"] for line in lines]

    @property
    def err(self) -> str:
        return without_others(self._err.read_text())

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PRINTED_LIMIT_S
        while not true():
            assert self._process.poll() is None, self.err
            assert time.monotonic() < deadline, (self.messages[-5:], self.err)
            time.sleep(0.05)

    def stop(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        return self._process.wait(30)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


@pytest.fixture
def mortal_cluster() -> Iterator[LabCluster]:
    with LabCluster.start(name="mortal") as cluster:
        yield cluster


def test_what_runs_have_told_is_read_from_the_target_alone(
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = unique_topic("link")
    operator = Operator(config(tmp_path, **{link: target_cluster.bootstrap_servers}), capsys)
    tell(
        target_cluster,
        lane_up(link, "too old", age_s=7200),
        *(lane_up(link, f"lane {n} is up", age_s=1000 - n) for n in range(300)),
        lost(link),
    )
    told = operator.events(link, "--since", "1h")
    assert [each["message"] for each in told[:-1]] == [f"lane {n} is up" for n in range(300)]
    stop = told[-1]
    assert (stop["code"], stop["severity"], stop["link"]) == ("lost", "error", link)
    assert (stop["source_topic"], stop["partition"], stop["first_offset"], stop["next_offset"]) == (
        "orders",
        3,
        20,
        50,
    )
    assert (stop["host"], stop["pid"], stop["target"]) == (socket.gethostname(), os.getpid(), f"to-{link}")
    assert operator.events(link, "--code", "lost") == [stop]
    assert operator.events(link, "--topic", "orders:3") == [stop]
    assert len(operator.events(link)) == 302
    code, out, err = operator.ask("--link", link, "--since", "1h")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("251 more before these: --all")


def test_only_what_was_written_since_then_is_read(
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = unique_topic("link")
    operator = Operator(config(tmp_path, **{link: target_cluster.bootstrap_servers}), capsys)
    tell(target_cluster, lane_up(link, "before"))
    time.sleep(0.5)
    between = datetime.now(UTC).isoformat()
    time.sleep(0.1)  # events have whole milliseconds
    tell(target_cluster, lane_up(link, "after"))
    assert [each["message"] for each in operator.events(link, "--since", between)] == ["after"]
    assert operator.events(link, "--since", (datetime.now(UTC) + timedelta(hours=1)).isoformat()) == []


def test_events_of_two_clusters_are_merged_and_those_of_a_run_are_told_once(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = unique_topic("link"), unique_topic("link")
    clusters = {first: target_cluster, second: source_cluster}
    servers = {link: cluster.bootstrap_servers for link, cluster in clusters.items()}
    operator = Operator(config(tmp_path, **servers), capsys)
    of_run = Occurrence(at=time_of_day(), code=Event.SPARK_OPEN, message=f"the run of {first}")
    for at, (link, cluster) in enumerate(clusters.items()):
        own = [lane_up(link, f"{n}", age_s=100 - n, now=of_run.at) for n in range(at, 20, 2)]
        tell(cluster, *own, of_run)
    told = operator.events("--since", "1h")
    ours = [each for each in told if each["link"] in clusters or each["message"] == of_run.message]
    assert [each["message"] for each in ours] == [*map(str, range(20)), of_run.message]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_comes_is_told_until_a_signal(
    number: signal.Signals, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    link = unique_topic("link")
    path = config(tmp_path, **{link: target_cluster.bootstrap_servers})
    tell(target_cluster, lane_up(link, "before"))
    with following(path, tmp_path, link) as follower:
        follower.until(lambda: follower.messages == ["before"])
        for n in range(3):
            tell(target_cluster, lane_up(link, f"{n}"))
        follower.until(lambda: len(follower.messages) == 4)
        assert follower.stop(number) == 0
    assert follower.messages == ["before", "0", "1", "2"]
    assert follower.err == ""


@pytest.mark.faults
def test_a_topic_that_is_made_a_broker_that_is_killed_and_a_cluster_that_is_gone(
    mortal_cluster: LabCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, link=mortal_cluster.bootstrap_servers)
    operator = Operator(path, capsys)
    code, out, err = operator.ask()
    assert (code, out.startswith("no events since ")) == (0, True)
    assert f"topic {EVENTS_TOPIC} is not there: no run has told anything yet" in err
    assert EVENTS_TOPIC not in _topics(mortal_cluster)

    (broker,) = mortal_cluster.brokers
    with following(path, tmp_path) as follower:
        follower.until(lambda: "is not there" in follower.err)
        tell(mortal_cluster, *(lane_up("link", f"{n}") for n in range(100)))
        follower.until(lambda: len(follower.messages) == 100)
        broker.kill()
        follower.until(lambda: "it is tried again" in follower.err)
        broker.start()
        tell(mortal_cluster, *(lane_up("link", f"{n}") for n in range(100, 200)))
        follower.until(lambda: len(follower.messages) >= 200)
        assert follower.stop(signal.SIGTERM) == 0
    assert follower.messages == [f"{n}" for n in range(200)]
    assert follower.err.count("it is tried again") == 1
    assert follower.err.count("is back") == 1

    broker.kill()
    code, out, err = operator.ask("--json")
    assert (code, out) == (3, "")
    assert "cannot be reached" in err


def _topics(cluster: LabCluster) -> set[str]:
    async def read() -> set[str]:
        client = ClusterClient("any", parse_properties({"bootstrap.servers": cluster.bootstrap_servers}))
        await client.connect()
        try:
            return set((await client.read_metadata(None)).topics)
        finally:
            await client.aclose()

    return asyncio.run(read())
