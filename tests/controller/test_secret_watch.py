"""Secrets that change while a mirror runs: tried by the driver first, used by all after that, and told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from heliograph.controller.clusters import Clusters
from heliograph.controller.secret_settings import with_secrets_of
from heliograph.controller.secret_tries import FIRST_PAUSE_S, REFUSED_PAUSES_S
from heliograph.controller.secret_watch import SecretWatch
from heliograph.model.events import Event
from heliograph.model.link import Link
from heliograph.model.outbox import Outbox
from heliograph.model.settings import Settings
from tests.cluster.peers import never_answer, peer
from tests.cluster.security.sasl_peer import SaslPeer, accept, refuse
from tests.cluster.security.tls_ends import authority, server_context

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
    now: float = 0.0

    def __post_init__(self) -> None:
        self.watch = SecretWatch(self.clusters, self._changed, self.outbox, lambda: self.now)

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

    async def looks_after(self, seconds: float) -> None:
        self.now += seconds
        await self.look()

    @property
    def told(self) -> list[str]:
        """Oldest first."""
        return [each.message for each in self.outbox.last]

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


async def test_a_config_that_is_changed_before_the_broker_is_tried_again_after_a_minute() -> None:
    async with scene("old") as (it, port):
        it.reads(sf=sasl(port, "new"))
        await it.look()
        it.broker.judge = accept
        await it.looks_after(REFUSED_PAUSES_S[0] - 1)
        assert it.passwords == {"old"}
        await it.looks_after(1)
        assert it.passwords == {"new"}
        assert it.outbox.counts == {Event.SECRET_REFUSED: 1, Event.SECRET_CHANGED: 1}
        assert len(it.broker.tokens) == 2


async def test_a_password_that_stays_wrong_is_tried_three_times_and_each_time_told() -> None:
    async with scene("new") as (it, port):
        it.reads(sf=sasl(port, "wrong"))
        for _ in range(1000):
            await it.looks_after(30)
        assert len(it.broker.tokens) == 3
        assert it.outbox.counts == {Event.SECRET_REFUSED: 3}
        for again, message in zip(("in 1 min", "in 15 min", "until they change"), it.told, strict=True):
            assert message.endswith(again)


async def test_what_is_no_refusal_is_told_once_and_tried_again() -> None:
    async with scene("new") as (it, port):
        it.reads(sf=sasl(port, "new"))
        it.broker.mechanisms = ("GSSAPI",)
        for _ in range(5):
            await it.looks_after(FIRST_PAUSE_S)
        assert it.outbox.counts == {Event.SECRET_REFUSED: 1}
        assert "does not take PLAIN" in it.told[0]
        it.broker.mechanisms = ("PLAIN",)
        await it.looks_after(60)
        assert it.passwords == {"new"}


async def test_a_store_that_comes_after_the_config_is_used_at_once(tmp_path: Path) -> None:
    async with peer(SaslPeer().behave, server_context()) as port:
        plain = {"bootstrap.servers": f"127.0.0.1:{port}"}
        settings = Settings(clusters=dict.fromkeys(("sf", "nyc", "ldn"), plain), links=LINKS)
        it = Scene(SaslPeer(), Clusters(settings), lambda: settings)
        store = tmp_path / "ca.pem"
        tls = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(store),
        }
        it.reads(sf=plain | tls)
        await it.look()
        assert "No such file" in it.told[0]
        assert str(store) in it.told[0]
        store.write_bytes(authority().certificate_pem)
        await it.look()
        assert it.outbox.counts == {Event.SECRET_REFUSED: 1, Event.SECRET_CHANGED: 1}
        await it.clusters.aclose()


async def test_a_cluster_that_hangs_holds_up_no_other() -> None:
    async with scene("new") as (it, port), peer(never_answer) as hanging:
        nyc = {"bootstrap.servers": f"127.0.0.1:{hanging}"}
        settings = replace(it.running, clusters={"nyc": nyc, **it.running.clusters} | {"nyc": nyc})
        mine = Scene(it.broker, Clusters(settings), it.read)
        mine.reads(sf=sasl(port, "new"), nyc=sasl(hanging, "new"))
        look = asyncio.create_task(mine.look())
        async with asyncio.timeout(5):
            while mine.passwords != {"new"}:  # noqa: ASYNC110 - a client sets no event
                await asyncio.sleep(0.01)
        assert not look.done()
        assert mine.running.clusters["nyc"] == nyc
        look.cancel()
        await asyncio.gather(look, return_exceptions=True)
        await mine.clusters.aclose()


async def test_secrets_that_do_not_fit_the_links_of_the_run_are_told_and_looked_at_again() -> None:
    async with scene("new") as (it, port):
        jaas = sasl(port, "own")["sasl.jaas.config"]
        own = replace(LINKS[0], consumer={"sasl.jaas.config": jaas})
        settings = replace(it.running, links=(own, LINKS[1]))
        mine = Scene(it.broker, Clusters(settings), lambda: settings)
        plain = {"bootstrap.servers": f"127.0.0.1:{port}"}
        without = replace(settings, clusters={**settings.clusters, "sf": plain}, links=LINKS[1:])
        mine.read = lambda: without
        for _ in range(3):
            await mine.looks_after(60)
        assert mine.outbox.counts == {Event.SECRET_REFUSED: 1}
        assert "cluster 'sf'" in mine.told[0]
        assert "link 'a'" in mine.told[0]
        assert "sasl.jaas.config: has no effect" in mine.told[0]
        assert jaas not in mine.told[0]
        assert "start the mirror again" in str(mine.outbox.last[0].hint)
        mine.read = lambda: settings
        await mine.look()
        await mine.clusters.aclose()


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
