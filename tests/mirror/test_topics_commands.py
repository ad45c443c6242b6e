"""`heliograph topics` on real clusters: recorded with no mirror running, answered where one is."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, TopicPartition

from heliograph.cluster.claims_group import claims_group_of
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.group_reads import read_members
from heliograph.cluster.own_topics import OwnTopics
from heliograph.cluster.properties import parse_properties
from heliograph.controller.ledger import Ledger
from heliograph.interface.cli import main as cli
from heliograph.lab.cluster import LabCluster
from heliograph.model.command import Command, Wish
from heliograph.model.ledger import Row, RowKind, RowName
from tests.support.mirror_process import write_config
from tests.support.plain_mirror import mirror_plainly, settings_for
from tests.support.played_driver import HOST, PID, PlayedDriver
from tests.support.records import mixed_records
from tests.support.topics import create_topic, delete_records
from tests.support.workload import produce_records

pytestmark = pytest.mark.kafka

T = TypeVar("T")
APPLIED = [{"outcome": "applied", "message": "done"}]


def with_client(cluster: LabCluster, ask: Callable[[ClusterClient], Awaitable[T]]) -> T:
    async def asked() -> T:
        client = ClusterClient("any", parse_properties({"bootstrap.servers": cluster.bootstrap_servers}))
        await client.connect()
        try:
            return await ask(client)
        finally:
            await client.aclose()

    return asyncio.run(asked())


async def _cluster_id(client: ClusterClient) -> str:
    return client.metadata.cluster_id


class Scene:
    """A topic of two partitions, mirrored; nobody runs."""

    def __init__(
        self, source: LabCluster, target: LabCluster, topic: str, directory: Path, capsys: Any
    ) -> None:
        self.source, self.target, self.topic, self._capsys = source, target, topic, capsys
        self.source_id = with_client(source, _cluster_id)
        servers = (source.bootstrap_servers, target.bootstrap_servers)
        create_topic(servers[0], topic, 2, configs={"retention.ms": "7200000"})
        produce_records(servers[0], topic, list(mixed_records(1, 30)))
        mirror_plainly(settings_for(*servers, [topic]))
        self.config = str(write_config(directory, source=servers[0], target=servers[1], topics=[topic]))
        self._await_nobody()

    def _await_nobody(self) -> None:
        """A driver that another test has killed is in the group until its session is over."""
        deadline = time.monotonic() + 60
        while with_client(self.target, lambda client: read_members(client, claims_group_of(self.source_id))):
            assert time.monotonic() < deadline
            time.sleep(0.5)

    def topics(self, verb: str, *words: str, code: int = 0) -> Any:
        ended, out, _ = self.ask("topics", verb, "-f", self.config, *words, "--json")
        assert ended == code
        return json.loads(out)

    def ask(self, *words: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        printed = self._capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    def rows(self) -> Sequence[dict[str, Any]]:
        (link,) = self.topics("list")["links"]
        return sorted(link["partitions"], key=lambda row: row["partition"])

    def stop(self, code: str) -> None:
        """As a driver records it."""
        name = RowName(
            source_cluster_id=self.source_id, target_topic=self.topic, partition=0, kind=RowKind.STOP
        )
        fields = {"code": code, "message": "why", "hint": "do", "at": "2026-03-01T00:00:00+00:00"}

        async def write(client: ClusterClient) -> None:
            ledger = Ledger(OwnTopics(client))
            await ledger.open()
            await ledger.write([Row(name=name, term=1, fields=fields)])

        with_client(self.target, write)

    def commands(self) -> dict[int, Command]:
        async def read(client: ClusterClient) -> dict[int, Command]:
            ledger = Ledger(OwnTopics(client))
            assert await ledger.look()
            about = ledger.commands.about(self.source_id)
            return {c.subject.partition: c for c in about if c.subject.target_topic == self.topic}

        return with_client(self.target, read)


@pytest.fixture
def scene(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # no other test's mirror is heard
    return Scene(source_cluster, target_cluster, unique_topic("commanded"), tmp_path, capsys)


def commit(bootstrap: str, group: str, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.close()


def test_with_no_mirror_running_what_is_wanted_is_recorded_and_shown(scene: Scene) -> None:
    topic = scene.topic
    assert [row["state"] for row in scene.rows()] == ["unknown", "unknown"]

    paused = scene.topics("pause", f"{topic}:0")
    assert (paused["recorded"], paused["mirrors"], paused["done"]) == (True, [], True)
    first, second = scene.rows()
    assert (first["state"], second["state"], first["command"]["wish"]) == ("paused", "unknown", "pause")
    code, out, _ = scene.ask("status", scene.config, "--json")
    assert (code, json.loads(out)["links"][0]["partitions"][0]["state"]) == (0, "paused")

    scene.topics("resume", topic)
    assert scene.commands()[0].wish is Wish.RESUME
    assert [row["state"] for row in scene.rows()] == ["unknown", "unknown"]


def test_what_is_lost_is_accepted_by_its_exact_offsets(scene: Scene) -> None:
    topic, source = scene.topic, scene.source.bootstrap_servers
    produce_records(source, topic, list(mixed_records(2, 20)))
    (end,) = (row["next_offset"] for row in scene.rows() if row["partition"] == 0)
    delete_records(source, topic, 0, before_offset=end + 10)
    scene.stop("lost")
    assert scene.ask("status", scene.config)[0] == 1

    refused = scene.topics("resume", topic, code=1)
    assert f"offsets {end} to {end + 9} (10) are lost" in refused["refused"][0]["message"]
    assert "--accept-loss" in refused["refused"][0]["hint"]
    code, _, err = scene.ask("topics", "resume", "-f", scene.config, topic, "--accept-loss")
    assert code == 2  # no terminal, and no --yes
    assert "no terminal to ask" in err

    scene.topics("resume", f"{topic}:0", "--accept-loss", "--yes")
    command = scene.commands()[0]
    assert (command.wish, command.stop, command.loses) == (Wish.RESUME, "lost", {0: (end, end + 10)})
    assert command.target_topic_id


def test_what_a_new_mirror_would_lose_is_shown_before_it_is_asked_for(scene: Scene) -> None:
    topic, source, target = scene.topic, scene.source.bootstrap_servers, scene.target.bootstrap_servers
    commit(target, f"group-of-{topic}", topic)
    delete_records(source, topic, 0, before_offset=4)

    shown = scene.topics("remirror", topic, "--dry-run")
    assert not shown["recorded"]
    (draft,) = shown["commands"]
    assert (draft["partition"], draft["lost"]) == (None, {"0": [[0, 4]]})
    assert draft["groups"] == {f"group-of-{topic}": [0]}
    assert scene.ask("topics", "remirror", "-f", scene.config, f"{topic}:0")[0] == 2
    assert scene.ask("topics", "remirror", "-f", scene.config, topic)[0] == 2

    scene.topics("remirror", topic, "--yes")
    command = scene.commands()[-1]
    assert (command.wish, command.loses) == (Wish.REMIRROR, {0: (0, 4)})


def test_a_running_mirror_says_what_became_of_it(scene: Scene) -> None:
    topic = scene.topic

    def answers(command: Command) -> list[dict[str, Any]]:
        if command.subject.target_topic != topic:
            return []
        if command.wish is Wish.REMIRROR:
            return [{"outcome": "under_way", "message": "deleting"}, *APPLIED]
        if command.subject.partition == 1:
            return [{"outcome": "refused", "message": "not this one", "hint": "leave it"}]
        return APPLIED

    with PlayedDriver(scene.target.bootstrap_servers, scene.source_id, answers) as driver:
        done = scene.topics("pause", f"{topic}:0")
        assert (done["mirrors"], done["commands"][0]["outcome"]) == ([f"{HOST} (pid {PID})"], "applied")
        refused = scene.topics("pause", f"{topic}:1", code=1)
        assert (refused["commands"][0]["outcome"], refused["commands"][0]["hint"]) == ("refused", "leave it")
        again = scene.topics("remirror", topic, "--yes")
        assert again["commands"][0]["outcome"] == "applied"
    assert [each.wish for each in driver.heard][-3:] == [Wish.PAUSE, Wish.PAUSE, Wish.REMIRROR]
    first, second = scene.rows()
    assert (first["state"], first["command"]["outcome"]) == ("paused", "applied")
    assert (second["state"], second["command"]["outcome"]) == ("unknown", "refused")


def test_a_mirror_that_does_not_answer_is_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.operations.answers.FIRST_ANSWER_S", 1.0)
    with PlayedDriver(scene.target.bootstrap_servers, scene.source_id, lambda _command: []):
        code, out, _ = scene.ask("topics", "pause", "-f", scene.config, f"{scene.topic}:0")
    assert code == 1
    assert f"no answer from the running mirror on {HOST} (pid {PID})" in out
    assert "the command stays recorded" in out


def test_a_mirror_of_other_topics_is_not_waited_for(scene: Scene) -> None:
    with PlayedDriver(scene.target.bootstrap_servers, scene.source_id, lambda _command: [], topics="others"):
        done = scene.topics("pause", f"{scene.topic}:0")
    assert (done["mirrors"], done["done"]) == ([], True)
