"""SASL against a played broker: what it is told, what each refusal means, and what may go on a connection meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.metadata import Broker
from heliograph.cluster.open_connection import UNPROVEN_FRAME_LIMIT
from heliograph.cluster.security.authentication import MOST_ROUNDS
from heliograph.cluster.security.mechanisms import MOST_ITERATIONS, exchange_for
from heliograph.cluster.security.settings import SaslMechanism, SaslSettings
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

from .sasl_door import ALICE, KERBEROS, PASSWORD, SCRAM, Door, ask, door, secured
from .sasl_peer import OTHER_API, Said, SaslPeer, Ticket, accept, refuse


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


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=%b,s=c2FsdA==,i=4096,i=1",  # which of them counts is up to the reader
        b"r=%b,s=c2FsdA==,i=1,i=4096",
        b"r=%b,i=4096,s=c2FsdA==,i=1",
        b"i=4096,r=%b,s=c2FsdA==",
        b"r=%b,s=c2FsdA==,s=b3RoZXI=,i=4096",
        b"r=%b,r=%bmore,s=c2FsdA==,i=4096",
        b"m=must,r=%b,s=c2FsdA==,i=4096",  # an extension that whoever does not know it has to refuse
        b"r=%b,s=c2FsdA==,i=4096,x=may",
        b"r=%b,s=c2FsdA==,i=4096,",
        b"r=%b,s=c2FsdA==,i=4096\n",
        b"r=%b,s=c2FsdA==,i=4_096",
        b"r=%b,s=c2FsdA==,i=+4096",
        b"r=%b,s=c2FsdA==,i=\xd9\xa4\xd9\xa0\xd9\xa9\xd9\xa6",  # 4096 in other digits
        b"r=%b,s=,i=4096",
        b"r=%b,s=c2FsdA==,i=" + b"9" * 5000,
    ],
)
def test_scram_takes_a_nonce_a_salt_and_iterations_each_once_and_nothing_else(challenge: bytes) -> None:
    exchange = exchange_for(SCRAM, "host")
    nonce = exchange.first().rpartition(b"r=")[2] + b"more"
    with pytest.raises(SecurityFailed, match="a nonce, a salt and a number of iterations"):
        exchange.next(challenge.replace(b"%b", nonce))


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


class Talkative:
    """Has so many rounds to say."""

    def __init__(self, rounds: int) -> None:
        self._left = rounds

    def first(self) -> bytes:
        return b"well"

    def next(self, _: bytes) -> bytes | None:
        self._left -= 1
        return b"and" if self._left else None

    def refused(self, words: str) -> SecurityFailed:
        return SecurityFailed(words)


async def test_an_exchange_that_has_not_ended_after_the_last_round_is_given_up() -> None:
    broker = SaslPeer()
    async with door(broker, make_exchange=lambda *_: Talkative(MOST_ROUNDS + 1)) as it:
        with pytest.raises(SecurityFailed, match="rounds"):
            await it.open()
    assert len(broker.tokens) == MOST_ROUNDS


async def test_an_exchange_may_end_in_the_last_round() -> None:
    broker = SaslPeer()
    async with door(broker, make_exchange=lambda *_: Talkative(MOST_ROUNDS)) as it:
        (await it.open()).close()
    assert len(broker.tokens) == MOST_ROUNDS


async def test_a_mechanism_whose_refusal_is_not_for_good_is_tried_again() -> None:
    broker = SaslPeer(refuse)
    async with door(broker, KERBEROS, make_exchange=lambda *_: Ticket()) as it:
        with pytest.raises(SecurityFailed) as raised:
            await it.open()
        assert raised.value.hint == "its clock"
        broker.judge = accept
        (await it.open()).close()
    assert broker.tokens == [b"ticket"] * 2


async def test_requests_pass_while_a_ticket_for_the_next_session_is_waited_for() -> None:
    broker = SaslPeer(lasts_ms=100)
    ticket = Ticket()
    async with door(broker, KERBEROS, make_exchange=lambda *_: ticket) as it:
        connection = await it.open()
        ticket.answers.clear()
        ticket.asked.clear()
        async with asyncio.timeout(2):
            while not ticket.asked.is_set():  # noqa: ASYNC110 - an event of threads
                await asyncio.sleep(0.01)
            assert bytes(await ask(connection, b"hello")) == b"hello"
        ticket.answers.set()
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
            assert keys[at + 1 : at + 2] in ([], [ApiKey.SASL_AUTHENTICATE])  # nothing came between


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
