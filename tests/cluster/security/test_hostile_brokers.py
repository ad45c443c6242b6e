"""Peers that mean harm before, while and after they are let in: each ends a client's visit in a typed error, soon, and
takes next to no memory."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from heliograph.cluster.open_connection import LEAST_FRAME_LIMIT, UNPROVEN_FRAME_LIMIT
from heliograph.cluster.security.tls_stream import ROOM_BYTES
from tests.support.certificates import Authority, write_pem
from tests.support.client_access import login
from tests.support.hostile_peer import (
    Behaviour,
    close_at_once,
    hostile_peer,
    say_nothing,
    server_context,
    speak_plain_text,
)
from tests.support.hostile_sasl import (
    CHUNK_BYTES,
    FalseBroker,
    empty_challenge,
    scram_challenge,
    slow_challenge,
    vast_answer,
    vast_challenge,
)
from tests.support.hostile_tls import (
    endless_alerts,
    endless_garbage,
    endless_handshake,
    endless_new_keys,
    vast_chain,
    vast_message,
)
from tests.support.visitor import CLUSTER, Visit, Visitor

BOUND_S = 4.0  # of all: the machine may be busy
# Beside what is limited by name: buffers of sockets and of OpenSSL, and what a first time costs.
GROWTH_BYTES = UNPROVEN_FRAME_LIMIT + ROOM_BYTES + (4 << 20)
BELOW_LIMIT_BYTES = UNPROVEN_FRAME_LIMIT // CHUNK_BYTES * CHUNK_BYTES
TOLD_CHARACTERS = 1000
HOST = "localhost"
PASSWORD = "never-to-be-told-8842"
LITTLE_PATIENCE = {
    "request.timeout.ms": "1000",  # no less is taken
    "socket.connection.setup.timeout.ms": "400",
}


class Case(NamedTuple):
    """A peer, and words of what the client says about it. `waits`: it keeps the client waiting, which has little
    patience then. `most_bytes`: of memory."""

    peer: Behaviour
    words: str
    waits: bool = False
    most_bytes: int = GROWTH_BYTES
    mechanism: str = "SCRAM-SHA-512"


class Host:
    """Starts peers, and sends the visitor to them."""

    def __init__(self, visitor: Visitor, directory: Path) -> None:
        self._visitor = visitor
        authority = Authority.make("sf")
        self.good_tls = server_context(authority.issue([HOST]))
        self._trust = write_pem(directory / "trust.pem", trusted=[authority])

    def assert_borne(self, case: Case, tls: ssl.SSLContext | None, protocol: str) -> None:
        visit, address = self.visit(case, tls, protocol)
        assert visit.error == "ClusterUnreachable"
        assert address in visit.message
        assert repr(CLUSTER) in visit.message
        assert case.words in visit.message
        assert visit.hint
        told = visit.message + visit.hint
        assert PASSWORD not in told
        assert len(told) < TOLD_CHARACTERS
        assert told.isprintable()
        assert visit.took_s < BOUND_S
        assert visit.grown_bytes < case.most_bytes

    def visit(self, case: Case, tls: ssl.SSLContext | None, protocol: str) -> tuple[Visit, str]:
        """And the address that it went to."""
        properties = {"security.protocol": protocol}
        if protocol != "SASL_PLAINTEXT":
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._trust)}
        if protocol != "SSL":
            properties |= login(case.mechanism, "mirror", PASSWORD).properties
        if case.waits:
            properties |= LITTLE_PATIENCE
        with hostile_peer(case.peer, tls=tls) as peer:
            address = f"{HOST}:{peer.port}"
            return self._visitor.visit({**properties, "bootstrap.servers": address}), address


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Visitor() as visitor:
        made = Host(visitor, tmp_path_factory.mktemp("hostile"))
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):  # once, so that nothing is loaded while it is measured
            broker = FalseBroker(empty_challenge, vast_answer(-1, 0))
            made.visit(Case(broker, "", mechanism=mechanism), made.good_tls, "SASL_SSL")
        yield made


INSTEAD_OF_TLS = {
    "silence": Case(say_nothing, "did not finish the TLS handshake in time", waits=True),
    "closes at once": Case(close_at_once, "closed the connection during the TLS handshake"),
    "endless handshake": Case(endless_handshake(), "the TLS handshake has not ended after"),
    "endless slow handshake": Case(
        endless_handshake(pause_s=0.05), "did not finish the TLS handshake in time", waits=True
    ),
    "message of 16 MB": Case(vast_message, "larger than any broker's"),
    "endless alerts": Case(endless_alerts, "TLS failed"),
    "garbage": Case(endless_garbage, "does not speak TLS"),
    "HTTP": Case(speak_plain_text, "does not speak TLS"),
}
INSIDE_TLS = {
    "silence": Case(say_nothing, "did not answer in time", waits=True),
    "closes at once": Case(close_at_once, "connection"),  # closed, or reset
    "garbage": Case(endless_garbage, "a frame "),
    "endless new keys": Case(endless_new_keys, "asks for new TLS keys without end"),
    "HTTP": Case(speak_plain_text, "speaks HTTP"),
}
OF_SASL = {
    "challenge of 100 MB": Case(FalseBroker(vast_challenge(100_000_000)), "over the limit"),
    "challenge of 100 MB, to PLAIN": Case(
        FalseBroker(vast_challenge(100_000_000)), "over the limit", mechanism="PLAIN"
    ),
    "challenge just below the limit": Case(
        FalseBroker(vast_challenge(BELOW_LIMIT_BYTES)), "does not begin SCRAM with"
    ),
    "challenge just below the limit, to PLAIN": Case(
        FalseBroker(vast_challenge(BELOW_LIMIT_BYTES)), "answers PLAIN with a challenge", mechanism="PLAIN"
    ),
    "challenge byte by byte": Case(FalseBroker(slow_challenge(0.05)), "did not answer in time", waits=True),
    "empty challenges": Case(FalseBroker(empty_challenge), "does not begin SCRAM with"),
    "a megabyte of mechanisms": Case(
        FalseBroker(empty_challenge, mechanisms=["\x1b[2J\n" * 5_000] * 30), "does not take SCRAM-SHA-512"
    ),
    "one iteration behind many": Case(
        FalseBroker(scram_challenge(8192, b",i=1")), "does not begin SCRAM with"
    ),
    "one iteration": Case(FalseBroker(scram_challenge(1)), "asks for 1 iterations"),
    "iterations for hours": Case(
        FalseBroker(scram_challenge(2_000_000_000)), "asks for 2000000000 iterations"
    ),
    "after the welcome, an answer of 2 GB": Case(
        FalseBroker(empty_challenge, vast_answer(2**31 - 1, 100_000_000)), "over the limit", mechanism="PLAIN"
    ),
    "after the welcome, a large answer that does not come": Case(
        FalseBroker(empty_challenge, vast_answer(LEAST_FRAME_LIMIT, 0)),
        "did not answer in time",
        waits=True,
        most_bytes=LEAST_FRAME_LIMIT + GROWTH_BYTES,  # whom we trust may have that much, and has it at once
        mechanism="PLAIN",
    ),
}


@pytest.mark.parametrize("name", INSTEAD_OF_TLS)
def test_a_handshake_that_leads_nowhere_is_given_up(name: str, host: Host) -> None:
    host.assert_borne(INSTEAD_OF_TLS[name], None, "SSL")


def test_a_chain_of_certificates_of_ten_megabytes_is_not_taken_in(host: Host) -> None:
    host.assert_borne(Case(say_nothing, "larger than any broker's"), vast_chain((HOST,)), "SSL")


@pytest.mark.parametrize("name", INSIDE_TLS)
def test_a_good_certificate_excuses_nothing(name: str, host: Host) -> None:
    host.assert_borne(INSIDE_TLS[name], host.good_tls, "SSL")


@pytest.mark.parametrize("name", OF_SASL)
def test_a_broker_that_asks_too_much_of_who_comes_by_sasl_is_left(name: str, host: Host) -> None:
    host.assert_borne(OF_SASL[name], host.good_tls, "SASL_SSL")


@pytest.mark.parametrize("name", [name for name, case in OF_SASL.items() if not case.waits])
def test_without_tls_it_is_left_as_well(name: str, host: Host) -> None:
    host.assert_borne(OF_SASL[name], None, "SASL_PLAINTEXT")
