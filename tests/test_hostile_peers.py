"""Hostile peers do what they say: seen by raw sockets, and by OpenSSL as the client that would be deceived."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from tests.support.certificates import Authority
from tests.support.hostile_peer import (
    LOOPBACK,
    Behaviour,
    Peer,
    close_at_once,
    hostile_peer,
    say_nothing,
    server_context,
    speak_plain_text,
)
from tests.support.hostile_sasl import FalseBroker, empty_challenge, scram_challenge, vast_challenge
from tests.support.hostile_tls import (
    ALERT,
    CERTIFICATE,
    CHAIN_BYTES,
    HANDSHAKE,
    MESSAGE_BYTES,
    endless_alerts,
    endless_garbage,
    endless_handshake,
    vast_chain,
    vast_message,
)
from tests.support.kafka_by_hand import ask, begin_sasl, read_exactly, send_token

MUCH_BYTES = 4_000_000  # of what has no end
WAIT_S = 5.0


def connected(peer: Peer) -> socket.socket:
    return socket.create_connection((LOOPBACK, peer.port), timeout=WAIT_S)


class Handshake:
    """OpenSSL's half of a handshake, up to TLS 1.2, in which all is said in the clear."""

    def __init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)

    def take(self, received: bytes = b"") -> bytes:
        """What it answers; an SSLError if it has had enough."""
        self._incoming.write(received)
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._outgoing.read()


def records(connection: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each."""
    while True:
        kind, _, size_bytes = struct.unpack(">BHH", read_exactly(connection, 5))
        yield kind, read_exactly(connection, size_bytes)


def handshake_messages(connection: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Kind and body of each."""
    pending = bytearray()
    for kind, content in records(connection):
        assert kind == HANDSHAKE
        pending += content
        while len(pending) >= 4 + (size_bytes := int.from_bytes(pending[1:4])):
            yield pending[0], bytes(pending[4 : 4 + size_bytes])
            del pending[: 4 + size_bytes]


@contextmanager
def greeted(behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[socket.socket]:
    """A connection on which a ClientHello was sent."""
    with hostile_peer(behaviour, tls=tls) as peer, connected(peer) as connection:
        connection.sendall(Handshake().take())
        yield connection


class TestOfConnections:
    def test_the_silent_one_takes_everything_and_says_nothing(self) -> None:
        with hostile_peer(say_nothing) as peer, connected(peer) as connection:
            connection.sendall(bytes(MUCH_BYTES))
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(1)

    def test_the_one_that_closes_does_so_before_a_word(self) -> None:
        with hostile_peer(close_at_once) as peer, connected(peer) as connection:
            assert connection.recv(1) == b""

    def test_the_one_that_speaks_plain_text_answers_a_client_hello_in_http(self) -> None:
        with greeted(speak_plain_text) as connection:
            assert read_exactly(connection, 12) == b"HTTP/1.1 400"

    def test_connections_are_counted_and_served_side_by_side(self) -> None:
        with hostile_peer(endless_garbage) as peer, connected(peer) as first, connected(peer) as second:
            assert read_exactly(first, 1000) == read_exactly(second, 1000)
            assert peer.connections == 2

    def test_behind_tls_a_peer_behaves_after_a_good_handshake(self) -> None:
        authority = Authority.make("sf")
        trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        context = server_context(authority.issue(["localhost"]))
        with (
            hostile_peer(speak_plain_text, tls=context) as peer,
            connected(peer) as connection,
            trusting.wrap_socket(connection, server_hostname="localhost") as sealed,
        ):
            sealed.sendall(b"GET")
            assert sealed.recv(12) == b"HTTP/1.1 400"


class TestOfTls:
    def test_an_endless_handshake_is_never_wrong_and_never_over(self) -> None:
        client = Handshake()
        with hostile_peer(endless_handshake()) as peer, connected(peer) as connection:
            connection.sendall(client.take())
            received = 0
            while received < MUCH_BYTES:
                piece = connection.recv(1 << 16)
                received += len(piece)
                assert client.take(piece) == b""

    def test_a_slow_endless_handshake_says_a_little_at_each_pause(self) -> None:
        client = Handshake()
        with hostile_peer(endless_handshake(pause_s=0.02)) as peer, connected(peer) as connection:
            connection.sendall(client.take())
            connection.recv(1 << 16)
            began = time.monotonic()
            for _ in range(5):
                assert client.take(read_exactly(connection, 9)) == b""
            assert time.monotonic() - began > 0.05

    def test_a_vast_message_is_announced_and_sent(self) -> None:
        with greeted(vast_message) as connection:
            messages = handshake_messages(connection)
            next(messages)
            kind, body = next(messages)
            assert (kind, len(body)) == (CERTIFICATE, MESSAGE_BYTES)

    def test_a_vast_chain_has_ten_megabytes_of_a_real_certificate(self) -> None:
        with greeted(say_nothing, tls=vast_chain()) as connection:
            messages = handshake_messages(connection)
            next(messages)
            kind, body = next(messages)
            assert kind == CERTIFICATE
            assert CHAIN_BYTES < len(body) < CHAIN_BYTES + 1000

    def test_endless_alerts_are_warnings(self) -> None:
        with greeted(endless_alerts) as connection:
            seen = records(connection)
            for _ in range(5000):
                assert next(seen) == (ALERT, b"\x01\x64")

    def test_endless_garbage_is_no_tls(self) -> None:
        with greeted(endless_garbage) as connection:
            with pytest.raises(ssl.SSLError, match="WRONG_VERSION_NUMBER"):
                Handshake().take(read_exactly(connection, 1 << 16))
            read_exactly(connection, MUCH_BYTES)


class TestOfSasl:
    def test_a_false_broker_says_which_versions_and_mechanisms_it_has(self) -> None:
        with hostile_peer(FalseBroker(empty_challenge)) as peer, connected(peer) as connection:
            spoken = ask(connection, ApiVersionsRequest(), ApiVersionsResponse, version=0)
            assert [each.api_key for each in spoken.api_keys] == [18, 17, 36]
            assert "SCRAM-SHA-512" in begin_sasl(connection, "SCRAM-SHA-512").mechanisms

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_an_empty_challenge_follows_every_token(self, version: int) -> None:
        broker = FalseBroker(empty_challenge)
        with hostile_peer(broker) as peer, connected(peer) as connection:
            begin_sasl(connection, "GSSAPI")
            for _ in range(20):
                answer = send_token(connection, b"token", version=version)
                assert (answer.error_code, answer.auth_bytes) == (0, b"")
        assert broker.tokens == [b"token"] * 20

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_a_vast_challenge_has_a_hundred_megabytes(self, version: int) -> None:
        with hostile_peer(FalseBroker(vast_challenge(100_000_000))) as peer, connected(peer) as connection:
            begin_sasl(connection, "SCRAM-SHA-512")
            answer = send_token(connection, b"n,,n=mirror,r=abc", version=version)
            assert (answer.error_code, len(answer.auth_bytes)) == (0, 100_000_000)

    @pytest.mark.parametrize("iterations", [1, 2_000_000_000])
    def test_a_challenge_of_scram_goes_on_from_the_clients_nonce(self, iterations: int) -> None:
        with hostile_peer(FalseBroker(scram_challenge(iterations))) as peer, connected(peer) as connection:
            begin_sasl(connection, "SCRAM-SHA-512")
            answer = send_token(connection, b"n,,n=mirror,r=abc")
            fields = dict(part.split(b"=", 1) for part in answer.auth_bytes.split(b","))
            assert (fields[b"r"], fields[b"i"]) == (b"abcserver", b"%d" % iterations)
