"""A driver that copies nothing: it joins the election of a source cluster and answers operators' commands as told.

Owns a thread with an event loop, so that a command line may run beside it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

from heliograph.cluster.claims_group import ClaimsGroup, claims_group_of
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.election import Election
from heliograph.cluster.own_topics import OwnTopics
from heliograph.cluster.properties import parse_properties
from heliograph.cluster.standing import Placed
from heliograph.controller.ledger import Ledger
from heliograph.model.claims import Claim
from heliograph.model.command import Command
from heliograph.model.ledger import Row, RowKind, RowName

LIMIT_S = 30.0
BETWEEN_S = 0.3
HOST, PID = "played", 4711

Answers = Callable[[Command], Sequence[dict[str, Any]]]


class PlayedDriver:
    """`answers`: the rows' fields that are written in answer to a command, one after the other; none: it hangs.
    `topics`: what it copies."""

    def __init__(
        self, bootstrap: str, source_cluster_id: str, answers: Answers, *, topics: str = ".*"
    ) -> None:
        self.heard: list[Command] = []
        self._bootstrap, self._source, self._answers = bootstrap, source_cluster_id, answers
        self._topics = topics
        self._ready, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._drive()))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(LIMIT_S), "the played driver was not elected"
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(LIMIT_S)

    async def _drive(self) -> None:
        client = ClusterClient("target", parse_properties({"bootstrap.servers": self._bootstrap}))
        await client.connect()
        ledger = Ledger(OwnTopics(client))
        await ledger.open()
        claims = ClaimsGroup(HOST, PID, [Claim(link="link", topics=(self._topics,))])
        election = Election(client, claims_group_of(self._source), claims, on_change=lambda _standing: None)
        election.start()
        wanted: asyncio.Queue[Command] = asyncio.Queue()
        following = asyncio.create_task(ledger.follow(wanted.put_nowait, lambda _problem: None))
        answering = asyncio.create_task(self._answer(ledger, wanted))
        try:
            while not self._end.is_set():
                if isinstance(election.standing, Placed):
                    self._ready.set()
                await asyncio.sleep(0.05)
        finally:
            following.cancel()
            answering.cancel()
            await asyncio.gather(following, answering, return_exceptions=True)
            await election.aclose()
            await client.aclose()

    async def _answer(self, ledger: Ledger, wanted: asyncio.Queue[Command]) -> None:
        while True:
            command = await wanted.get()
            self.heard.append(command)
            for fields in self._answers(command):
                name = RowName(
                    source_cluster_id=self._source,
                    target_topic=command.subject.target_topic,
                    partition=command.subject.partition,
                    kind=RowKind.ANSWER,
                )
                said = {"id": command.id, "message": "", "hint": "", "at": "", **fields}
                await ledger.write([Row(name=name, term=1, fields=said)])
                await asyncio.sleep(BETWEEN_S)
