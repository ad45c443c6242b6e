"""Secrets that change while a mirror runs: tried by the driver first, used by all after that, and told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from heliograph.controller.clusters import Clusters
from heliograph.controller.secret_watch import SecretWatch, with_secrets_of
from heliograph.model.events import Event
from heliograph.model.link import Link
from heliograph.model.outbox import Outbox
from heliograph.model.settings import Settings
from tests.cluster.peers import peer
from tests.cluster.security.sasl_peer import SaslPeer, accept, refuse

LINKS = tuple(
    Link(name=name, source="sf", target=to, topics=(".*",)) for name, to in (("a", "nyc"), ("b", "ldn"))
)


def sasl(port: int, password: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "request.timeout.ms": "1000",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="mirror" password="{password}";',
    }


@dataclass
class Scene:
    broker: SaslPeer
    clusters: Clusters
    read: Callable[[], Settings]
    outbox: Outbox = field(default_factory=Outbox)
    changes: int = 0

    def __post_init__(self) -> None:
        self.watch = SecretWatch(self.clusters, self._changed, self.outbox)

    def _changed(self) -> None:
        self.changes += 1

    async def look(self) -> None:
        await self.watch.look(self.read())

    @property
    def running(self) -> Settings:
        return self.clusters.settings

    def reads(self, **clusters: dict[str, str]) -> None:
        """From now on the config has these clusters."""
        settings = replace(self.running, clusters={**self.running.clusters, **clusters})
        self.read = lambda: settings

    @property
    def passwords(self) -> set[str]:
        """What the clients of sf would prove themselves with."""
        clients = [self.clusters.source(link.name) for link in LINKS]
        return {
            client.properties.security.sasl.password for client in clients if client.properties.security.sasl
        }


@asynccontextmanager
async def scene(good: str) -> AsyncIterator[tuple[Scene, int]]:
    """A mirror of two links from sf, whose password is `old`; its broker accepts `good`."""
    broker = SaslPeer(lambda token: accept(token) if token.endswith(good.encode()) else refuse(token))
    async with peer(broker.behave) as port:
        plain = {"bootstrap.servers": "127.0.0.1:1"}
        settings = Settings(clusters={"sf": sasl(port, "old"), "nyc": plain, "ldn": plain}, links=LINKS)
        clusters = Clusters(settings)
        yield Scene(broker, clusters, lambda: settings), port
        await clusters.aclose()


async def test_a_config_that_has_not_changed_changes_nothing_and_asks_nobody() -> None:
    async with scene("new") as (it, _):
        await it.look()
        assert it.changes == 0
        assert it.broker.connections == 0
        assert not it.outbox.counts


async def test_a_new_password_that_is_accepted_is_used_by_all_links_of_the_cluster_and_told_once() -> None:
    async with scene("new") as (it, port):
        it.reads(sf=sasl(port, "new"))
        await it.look()
        await it.look()
        assert it.passwords == {"new"}
        assert it.changes == 1
        assert it.outbox.counts == {Event.SECRET_CHANGED: 1}
        assert len(it.broker.tokens) == 1
        assert {each.source_properties["sasl.jaas.config"] for each in it.clusters.link_clusters()} == {
            sasl(port, "new")["sasl.jaas.config"]
        }


async def test_a_new_password_that_is_refused_is_tried_once_and_the_old_one_stays() -> None:
    async with scene("new") as (it, port):
        it.reads(sf=sasl(port, "wrong"))
        for _ in range(3):
            await it.look()
        assert it.passwords == {"old"}
        assert it.changes == 0
        assert it.outbox.counts == {Event.SECRET_REFUSED: 1}
        assert len(it.broker.tokens) == 1
        assert "wrong" not in it.outbox.last[0].message + str(it.outbox.last[0].hint)
        it.reads(sf=sasl(port, "new"))
        await it.look()
        assert it.passwords == {"new"}


async def test_a_cluster_that_is_away_is_asked_again_later() -> None:
    async with scene("new") as (it, port):
        it.reads(sf=sasl(1, "new") | {"bootstrap.servers": f"127.0.0.1:{port}"})
        away = replace(it.running, clusters={**it.running.clusters, "sf": sasl(1, "old")})
        gone = Scene(it.broker, Clusters(away), it.read)
        await gone.look()
        assert gone.changes == 0
        assert not gone.outbox.counts
        await gone.clusters.aclose()


def test_nothing_but_what_secures_connections_is_taken() -> None:
    running = Settings(
        clusters={"sf": {"bootstrap.servers": "a:1", "client.id": "x"}, "nyc": {}}, links=LINKS[:1]
    )
    other = Link(name="a", source="sf", target="nyc", topics=("other",), producer={"ssl.key.password": "p"})
    read = Settings(
        clusters={"sf": {"bootstrap.servers": "b:2", "ssl.keystore.password": "s"}, "more": {}},
        links=(other,),
        lanes=7,
    )
    taken = with_secrets_of(running, read, {"sf"})
    assert taken.clusters == {
        "sf": {"bootstrap.servers": "a:1", "client.id": "x", "ssl.keystore.password": "s"},
        "nyc": {},
    }
    assert taken.links == running.links
    assert taken.lanes is None
    assert with_secrets_of(running, read, {"nyc"}).links[0].producer == {"ssl.key.password": "p"}
