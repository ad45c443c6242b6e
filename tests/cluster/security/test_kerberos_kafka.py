"""Real brokers of two Kerberos realms: authenticated to from one process, again and again, while tickets end and keys
change."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from heliograph.cluster.security.kerberos import KerberosExchange
from heliograph.lab.cluster import LabCluster
from heliograph.lab.together import started_together
from heliograph.model.errors import AuthenticationFailed, SecurityFailed
from heliograph.wire.error_codes import ErrorCode
from tests.support.kafka_by_hand import ask, begin_sasl, send_token
from tests.support.kdc import why_no_kdc
from tests.support.kerberos_listener import LISTENER, kerberos_listener
from tests.support.kerberos_realm import Realm, Realms

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_no_kdc()), reason=why_no_kdc()),
]

HOST = "localhost"
TICKET_LIFE_S = 6
SESSION_MS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    realm: Realm
    cluster: LabCluster

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        host, _, port = self.cluster.servers(LISTENER).rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            yield connection

    def authenticate(self) -> None:
        """On a new connection, which then can be used."""
        with self.connection() as connection:
            authenticate(connection, self.realm)
            assert brokers(connection) == 1


def authenticate(connection: socket.socket, realm: Realm) -> int:
    """For how many milliseconds the broker takes it."""
    answer: Any = begin_sasl(connection, "GSSAPI")
    assert not answer.error_code, answer
    exchange = KerberosExchange(realm.settings, HOST)
    token: bytes | None = exchange.first()
    while token is not None:
        answer = send_token(connection, token)
        if answer.error_code:
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            raise exchange.refused(answer.error_message)
        token = exchange.next(answer.auth_bytes)
    return int(answer.session_lifetime_ms)


def brokers(connection: socket.socket) -> int:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    return len(ask(connection, request, MetadataResponse, 4).brokers)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, ...]]:
    with Realms(tmp_path_factory.mktemp("realms")) as realms:
        both = {letter: realms.add(letter, host=HOST, ticket_life_s=TICKET_LIFE_S) for letter in "ab"}
        listeners = {
            letter: [kerberos_listener(realm, reauth_ms=SESSION_MS)] for letter, realm in both.items()
        }
        with started_together(*both, listeners=listeners) as clusters:
            yield tuple(Site(realm=both[each.name], cluster=each) for each in clusters)


def test_brokers_of_two_realms_are_authenticated_to_at_the_same_time(sites: tuple[Site, ...]) -> None:
    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(site.authenticate) for site in sites * 10]:
            done.result(60)


def test_a_connection_authenticates_again_over_several_lifetimes_of_a_ticket(sites: tuple[Site, ...]) -> None:
    site = sites[0]
    before = site.realm.logins
    with site.connection() as connection:
        end = time.monotonic() + 3 * TICKET_LIFE_S
        while time.monotonic() < end:
            assert 0 < authenticate(connection, site.realm) <= SESSION_MS
            assert brokers(connection) == 1
            time.sleep(1.1)  # brokers refuse to be asked twice in a second
    assert site.realm.logins - before >= 5


def test_a_broker_whose_key_was_changed_refuses_old_tickets_once(sites: tuple[Site, ...]) -> None:
    site = sites[1]
    site.authenticate()
    site.realm.kdc.rotate(site.realm.service)
    site.realm.kdc.write_keytab("broker.keytab", site.realm.service)  # brokers look into theirs again
    with pytest.raises(SecurityFailed) as refused:
        site.authenticate()
    assert type(refused.value) is SecurityFailed
    assert refused.value.message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI "
        f"(by keytab {site.realm.keytab}, with a ticket for kafka/localhost)"
    )
    assert "kvno kafka/localhost" in refused.value.hint
    site.authenticate()


def test_a_mirror_whose_key_was_changed_goes_on_with_the_new_keytab(sites: tuple[Site, ...]) -> None:
    site = sites[1]
    site.authenticate()
    site.realm.kdc.rotate("mirror")
    time.sleep(TICKET_LIFE_S)
    with pytest.raises(AuthenticationFailed, match=r"does not accept the key of mirror@B\.TEST"):
        site.authenticate()
    site.realm.kdc.write_keytab("mirror.keytab", "mirror")
    site.authenticate()
