"""SASL against a played broker: what it is told, what each refusal means, and what may go on a connection meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from heliograph.cluster.broker_versions import BrokerVersions
from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.connection import Connection
from heliograph.cluster.metadata import Broker
from heliograph.cluster.open_connection import UNPROVEN_FRAME_LIMIT
from heliograph.cluster.security.attempts import TURN_S, Attempts
from heliograph.cluster.security.cluster_locks import ClusterLocks
from heliograph.cluster.security.mechanisms import MOST_ITERATIONS, exchange_for
from heliograph.cluster.security.settings import SaslMechanism, SaslSettings, Security, SecurityProtocol
from heliograph.model.errors import (
    AuthenticationFailed,
    ClusterUnreachable,
    Disconnected,
    ProtocolError,
    SecurityFailed,
)
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from tests.cluster.peers import peer, properties_for

from .sasl_peer import OTHER_API, Said, SaslPeer, accept, refuse

PASSWORD = "open-sesame-4711"
ALICE = SaslSettings(mechanism=SaslMechanism.PLAIN, username="alice", password=PASSWORD)
SCRAM = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_256, username="alice", password=PASSWORD)


def secured(sasl: SaslSettings) -> Security:
    return Security(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)


class Door:
    """Opens connections to one played broker as a cluster's client does."""

    def __init__(self, port: int, sasl: SaslSettings, **choices: Any) -> None:
        self.port = port
        self.locks = ClusterLocks(secured(sasl), timeout_ms=500, attempts=Attempts(), **choices)
        self._versions = BrokerVersions(properties_for(port, security=secured(sasl)), self.locks)

    async def open(self) -> Connection:
        connection = await self._versions.open("127.0.0.1", self.port)
        try:
            await self.locks.authenticate(connection, "127.0.0.1")
        except BaseException:
            connection.close()
            raise
        return connection


@asynccontextmanager
async def door(broker: SaslPeer, sasl: SaslSettings = ALICE, **choices: Any) -> AsyncIterator[Door]:
    async with peer(broker.behave) as port:
        opened = Door(port, sasl, **choices)
        yield opened
        await opened.locks.aclose()


def ask(connection: Connection, body: bytes) -> asyncio.Future[memoryview]:
    return connection.request(OTHER_API, 0, [body], flexible=False, timeout_ms=2000)


async def test_plain_says_name_and_password_once_and_then_requests_pass() -> None:
    broker = SaslPeer()
    async with door(broker) as it:
        connection = await it.open()
        assert bytes(await ask(connection, b"hello")) == b"hello"
        connection.close()
    assert broker.tokens == [b"\0alice\0" + PASSWORD.encode()]
    assert [key for key, _ in broker.seen] == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, OTHER_API]


async def test_scram_escapes_the_user_name() -> None:
    broker = SaslPeer(refuse)
    sasl = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_512, username="a=b,c", password=PASSWORD)
    async with door(broker, sasl) as it:
        with pytest.raises(AuthenticationFailed):
            await it.open()
    assert broker.tokens[0].startswith(b"n,,n=a=3Db=2Cc,r=")


async def test_a_refusal_names_broker_user_and_mechanism_and_not_the_password() -> None:
    async with door(SaslPeer(refuse)) as it:
        with pytest.raises(AuthenticationFailed) as raised:
            await it.open()
    assert f"127.0.0.1:{it.port}" in raised.value.message
    assert "'alice'" in raised.value.message
    assert "PLAIN" in raised.value.message
    assert PASSWORD not in raised.value.message + raised.value.hint


async def test_a_broker_that_repeats_the_password_is_not_quoted() -> None:
    def gossip(_: bytes) -> Said:
        return Said(error=ErrorCode.SASL_AUTHENTICATION_FAILED, words=f"{PASSWORD} is wrong")

    async with door(SaslPeer(gossip)) as it:
        with pytest.raises(AuthenticationFailed) as raised:
            await it.open()
    assert PASSWORD not in raised.value.message


async def test_a_broker_that_says_too_much_is_quoted_in_one_short_line() -> None:
    def shout(_: bytes) -> Said:
        return Said(error=ErrorCode.SASL_AUTHENTICATION_FAILED, words="\x1b[2J no\n" * 1000)

    for broker in (SaslPeer(shout), SaslPeer(mechanisms=("\x1b[2J\n" * 5000,) * 30)):
        async with door(broker) as it:
            with pytest.raises(SecurityFailed) as raised:
                await it.open()
        told = raised.value.message + raised.value.hint
        assert len(told) < 1000
        assert told.isprintable()


async def test_a_secret_that_was_refused_is_not_tried_again() -> None:
    broker = SaslPeer(refuse)
    async with door(broker) as it:
        for _ in range(5):
            with pytest.raises(AuthenticationFailed):
                await it.open()
        assert len(broker.tokens) == 1


async def test_of_many_connections_at_once_one_tries_first() -> None:
    broker = SaslPeer(refuse, delay_s=0.02)
    async with door(broker) as it:
        ends = await asyncio.gather(*(it.open() for _ in range(20)), return_exceptions=True)
        assert all(isinstance(end, AuthenticationFailed) for end in ends)
        assert len(broker.tokens) == 1


async def test_of_many_sessions_that_end_one_tries_first_whether_the_secret_is_still_good() -> None:
    broker = SaslPeer(lasts_ms=300)
    async with door(broker) as it:
        connections = [await it.open() for _ in range(10)]
        broker.seen.clear()
        broker.judge, broker.delay_s = refuse, 0.1  # brokers take their time with a refusal
        async with asyncio.timeout(5):
            while not all(connection.closed for connection in connections):  # noqa: ASYNC110 - they set no event
                await asyncio.sleep(0.01)
    assert len(broker.tokens) == 1


async def test_a_broker_that_hangs_holds_nobody_up_for_long_who_has_a_good_secret() -> None:
    attempts = Attempts()
    async with attempts.attempt("good"):
        pass
    async with attempts.attempt("good"):  # on a connection to a broker that hangs
        began = asyncio.get_running_loop().time()
        async with attempts.attempt("good"):
            assert TURN_S <= asyncio.get_running_loop().time() - began < 3 * TURN_S


async def test_who_waited_for_the_first_to_be_let_in_comes_in_beside_the_others() -> None:
    broker = SaslPeer(delay_s=0.1)
    async with door(broker) as it:
        began = asyncio.get_running_loop().time()
        for connection in await asyncio.gather(*(it.open() for _ in range(20))):
            connection.close()
        assert asyncio.get_running_loop().time() - began < 3.0  # one by one it would take four


async def test_another_secret_is_tried_after_a_refusal_and_the_refused_one_may_come_back() -> None:
    broker = SaslPeer(lambda token: refuse(token) if token.endswith(PASSWORD.encode()) else accept(token))
    async with door(broker) as it:
        with pytest.raises(AuthenticationFailed):
            await it.open()
        it.locks.use(
            secured(SaslSettings(mechanism=SaslMechanism.PLAIN, username="alice", password="another"))
        )
        (await it.open()).close()
        (await it.open()).close()
    assert len(broker.tokens) == 3


async def test_a_broker_that_is_away_is_no_refusal() -> None:
    broker = SaslPeer()
    async with peer(broker.behave) as port:
        it = Door(port, ALICE)
    with pytest.raises(Disconnected):
        await it.open()
    async with door(broker) as again:
        (await again.open()).close()


async def test_a_mechanism_that_is_not_offered_is_told_with_those_that_are() -> None:
    async with door(SaslPeer(mechanisms=("GSSAPI", "SCRAM-SHA-512"))) as it:
        with pytest.raises(
            SecurityFailed, match=r"does not take PLAIN; it offers GSSAPI, SCRAM-SHA-512"
        ) as raised:
            await it.open()
    assert not isinstance(raised.value, AuthenticationFailed)
    assert "sasl.mechanism" in raised.value.hint


async def test_a_listener_without_sasl_is_told_as_that() -> None:
    async with door(SaslPeer(handshake_error=ErrorCode.ILLEGAL_SASL_STATE)) as it:
        with pytest.raises(SecurityFailed, match="listener without SASL"):
            await it.open()


async def test_brokers_before_kafka_1_0_are_told_as_too_old() -> None:
    async with door(SaslPeer(versions={ApiKey.SASL_HANDSHAKE: (0, 0)})) as it:
        with pytest.raises(SecurityFailed, match=r"Kafka 1\.0"):
            await it.open()


@pytest.mark.parametrize("iterations", [1, 4095, MOST_ITERATIONS + 1, 2_000_000_000])
async def test_scram_takes_neither_a_weak_hash_nor_an_endless_one(iterations: int) -> None:
    def ask_for(token: bytes) -> Said:
        nonce = token.rpartition(b"r=")[2]
        return Said(challenge=b"r=%b,s=c2FsdA==,i=%d" % (nonce + b"more", iterations))

    async with door(SaslPeer(ask_for), SCRAM) as it:
        with pytest.raises(SecurityFailed, match=str(iterations)):
            await it.open()


@pytest.mark.parametrize(
    "challenge", [b"", b"r=other,s=c2FsdA==,i=4096", b"nonsense", b"r=\xff,s=,i=4096", b"i=4096"]
)
def test_scram_refuses_a_broker_that_makes_no_sense_without_telling_a_secret(challenge: bytes) -> None:
    exchange = exchange_for(SCRAM, "host")
    exchange.first()
    with pytest.raises(SecurityFailed) as raised:
        exchange.next(challenge)
    assert PASSWORD not in str(raised.value)


async def test_scram_refuses_a_broker_that_does_not_know_the_password() -> None:
    def play(token: bytes) -> Said:
        if token.startswith(b"n,,"):
            return Said(challenge=b"r=%bmore,s=c2FsdA==,i=4096" % token.rpartition(b"r=")[2])
        return Said(challenge=b"v=" + b"QUJD" * 10)

    async with door(SaslPeer(play), SCRAM) as it:
        with pytest.raises(SecurityFailed, match="could not prove"):
            await it.open()


async def test_a_challenge_that_is_too_large_is_refused_by_its_announced_size() -> None:
    def flood(_: bytes) -> Said:
        return Said(challenge=bytes(UNPROVEN_FRAME_LIMIT + 1))

    async with door(SaslPeer(flood), SCRAM) as it:
        with pytest.raises(ProtocolError, match="over the limit"):
            await it.open()


async def test_an_exchange_that_never_ends_is_given_up() -> None:
    class Endless:
        def first(self) -> bytes:
            return b"on"

        def next(self, challenge: bytes) -> bytes | None:
            return b"and " + challenge

        def refused(self, words: str) -> SecurityFailed:
            return SecurityFailed(words)

    async with door(SaslPeer(), make_exchange=lambda *_: Endless()) as it:
        with pytest.raises(SecurityFailed, match="rounds"):
            await it.open()


class Ticket:
    """As Kerberos: what is said first may take its time, and a refusal is not for good."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def first(self) -> bytes:
        self.asked.set()
        assert self.answers.wait(10)
        return b"ticket"

    def next(self, _: bytes) -> bytes | None:
        return None

    def refused(self, words: str) -> SecurityFailed:
        return SecurityFailed(words, hint="its clock")


async def test_a_mechanism_whose_refusal_is_not_for_good_is_tried_again() -> None:
    broker = SaslPeer(refuse)
    async with door(broker, make_exchange=lambda *_: Ticket()) as it:
        with pytest.raises(SecurityFailed) as raised:
            await it.open()
        assert raised.value.hint == "its clock"
        broker.judge = accept
        (await it.open()).close()
    assert broker.tokens == [b"ticket"] * 2


async def test_requests_pass_while_a_ticket_for_the_next_session_is_waited_for() -> None:
    broker = SaslPeer(lasts_ms=100)
    ticket = Ticket()
    async with door(broker, make_exchange=lambda *_: ticket) as it:
        connection = await it.open()
        ticket.answers.clear()
        ticket.asked.clear()
        async with asyncio.timeout(2):
            while not ticket.asked.is_set():  # noqa: ASYNC110 - an event of threads
                await asyncio.sleep(0.01)
            assert bytes(await ask(connection, b"hello")) == b"hello"
        ticket.answers.set()
        connection.close()


async def test_threads_that_wait_for_a_kdc_are_no_others() -> None:
    held = [Ticket() for _ in range(20)]
    waiting = iter(held)
    async with door(SaslPeer(), make_exchange=lambda *_: next(waiting)) as it:
        (await it.open()).close()  # from now on many may try at once
        for ticket in held:
            ticket.answers.clear()
        opening = [asyncio.create_task(it.open()) for _ in held[1:]]
        async with asyncio.timeout(2):
            while not all(ticket.asked.is_set() for ticket in held):  # noqa: ASYNC110 - events of threads
                await asyncio.sleep(0.01)
            assert await asyncio.to_thread(len, "other work") == 10
        for ticket in held:
            ticket.answers.set()
        for connection in await asyncio.gather(*opening):
            connection.close()


async def test_a_session_is_renewed_before_it_ends_and_requests_wait_meanwhile_in_order() -> None:
    broker = SaslPeer(lasts_ms=300, delay_s=0.002)
    async with door(broker) as it:
        connection = await it.open()
        answers: list[asyncio.Future[memoryview]] = []
        for number in range(300):
            answers.append(ask(connection, b"%d" % number))
            await asyncio.sleep(0.003)
        for number, answered in enumerate(answers):
            assert bytes(await answered) == b"%d" % number
        connection.close()
    assert len(broker.tokens) >= 3
    keys = [key for key, _ in broker.seen]
    for at, key in enumerate(keys):
        if key == ApiKey.SASL_HANDSHAKE:
            assert keys[at + 1] == ApiKey.SASL_AUTHENTICATE  # nothing came between


async def test_a_session_that_cannot_be_renewed_ends_its_connection_with_the_reason() -> None:
    broker = SaslPeer(lasts_ms=100)
    async with door(broker) as it:
        connection = await it.open()
        broker.judge = refuse
        async with asyncio.timeout(2):
            while not connection.closed:  # noqa: ASYNC110 - a connection sets no event
                await asyncio.sleep(0.01)
        with pytest.raises(AuthenticationFailed, match="alice"):
            await ask(connection, b"too late")


async def test_a_session_is_not_renewed_while_a_request_is_held_back() -> None:
    broker = SaslPeer(lasts_ms=100)
    async with door(broker) as it:
        connection = await it.open()
        assert connection._gate is not None
        connection._gate.push([b""], lambda: True)  # as one whose last byte may not leave yet
        await asyncio.sleep(0.3)
        assert len(broker.tokens) == 1
        connection._gate.clear()
        async with asyncio.timeout(2):
            while len(broker.tokens) < 2:  # noqa: ASYNC110 - a list sets no event
                await asyncio.sleep(0.01)
        connection.close()


async def test_a_connection_that_closes_while_it_is_renewed_fails_what_waits_behind() -> None:
    broker = SaslPeer()
    async with door(broker) as it:
        connection = await it.open()
        with connection.reserved():
            waiting = ask(connection, b"behind")
            connection.close(Disconnected("gone"))
            late = ask(connection, b"later still")
        for answered in (waiting, late):
            with pytest.raises(Disconnected, match="gone"):
                await answered


async def test_a_cluster_that_refuses_us_is_named_and_its_other_servers_are_not_tried() -> None:
    broker = SaslPeer(refuse)
    async with peer(broker.behave) as first, peer(broker.behave) as second:
        client = ClusterClient("sf", properties_for(first, second, security=secured(ALICE)))
        with pytest.raises(
            ClusterUnreachable, match=rf"cluster 'sf': 127.0.0.1:{first}: PLAIN as 'alice'"
        ) as raised:
            await client.connect()
        await client.aclose()
    assert raised.value.exit_code == 3
    assert "sasl.jaas.config" in raised.value.hint
    assert len(broker.tokens) == 1


async def test_a_secret_that_was_refused_may_come_back_after_another_one_was_in_use() -> None:
    new = secured(replace(ALICE, password="new"))
    broker = SaslPeer(refuse)
    async with peer(broker.behave) as port:
        client = ClusterClient("sf", properties_for(port, security=secured(ALICE), reconnect_backoff_ms=1))
        client.metadata = replace(client.metadata, brokers={1: Broker(1, "127.0.0.1", port)})
        for _ in range(3):
            with pytest.raises(AuthenticationFailed):
                await client.connection(1, CONTROL)
        assert len(broker.tokens) == 1
        broker.judge = accept
        client.use(secured(ALICE))  # the same: nothing says that it is good by now
        with pytest.raises(AuthenticationFailed):
            await client.connection(1, CONTROL)
        assert len(broker.tokens) == 1
        client.use(new)
        client.use(secured(ALICE))
        assert not (await client.connection(1, CONTROL)).closed
        await client.aclose()


async def test_a_new_secret_can_be_tried_before_it_is_used() -> None:
    broker = SaslPeer(lambda token: accept(token) if token.endswith(b"new") else refuse(token))
    new = secured(SaslSettings(mechanism=SaslMechanism.PLAIN, username="alice", password="new"))
    async with peer(broker.behave) as port:
        client = ClusterClient("sf", properties_for(port, security=secured(ALICE)))
        await client.try_security(new)
        with pytest.raises(AuthenticationFailed):
            await client.try_security(secured(ALICE))
        await client.aclose()
    with pytest.raises(Disconnected):
        await client.try_security(new)


async def test_a_password_that_cannot_be_sent_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """The config refuses it before. An error of this kind is one of ours, and holds what it could not encode."""
    sasl = replace(ALICE, password=f"{PASSWORD}\udcff")
    async with peer(SaslPeer().behave) as port:
        client = ClusterClient("sf", properties_for(port, security=secured(sasl)))
        client.metadata = replace(client.metadata, brokers={1: Broker(1, "127.0.0.1", port)})
        with pytest.raises(UnicodeEncodeError):
            await client.connection(1, CONTROL)
        await asyncio.sleep(0)
        await client.aclose()
    assert "a request to a cluster failed" in caplog.text
    assert PASSWORD not in caplog.text
