"""Passwords and certificates that change while brokers run, as their operators change them.

Owns the requests and the wait until a broker has taken them. Must not know who is connected meanwhile.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import Encoding
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from heliograph.lab.listeners import SCRAM_ITERATIONS

from .certificates import Authority, Issued, write_pem
from .kafka_by_hand import ask
from .secured_clusters import SecuredCluster

TIMEOUT_S = 30.0
POLL_S = 0.05
NETWORK_THREADS = (
    3  # of a listener: they take connections in turn, and each changes its certificate for itself
)
_MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


def set_password(bootstrap: str, user: str, password: str, *, mechanism: str = "SCRAM-SHA-512") -> None:
    """Of a user of SCRAM, who is made if there is none. `bootstrap`: of the plain listener."""
    info = ScramCredentialInfo(_MECHANISMS[mechanism], SCRAM_ITERATIONS)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # it must live as long as what it was asked
    wanted = UserScramCredentialUpsertion(user, info, password.encode())
    for altered in admin.alter_user_scram_credentials([wanted]).values():
        altered.result(TIMEOUT_S)


def renew_certificate(cluster: SecuredCluster, listener: str, issued: Issued) -> None:
    """Returns when every broker shows the new one to who connects. Brokers refuse one of another subject."""
    tls = cluster.listener(listener).tls
    assert tls is not None
    write_pem(tls.keystore, issued=issued)
    _read_again(cluster, listener, "ssl.keystore.location", tls.keystore)
    wanted = issued.certificates[0].public_bytes(Encoding.DER)
    for server in cluster.cluster.servers(listener).split(","):
        _await(partial(_shows, server, wanted), f"new certificate of {server}")


def trust_clients_of(
    cluster: SecuredCluster, listener: str, *trusted: Authority, no_more: Authority | None = None
) -> None:
    """Returns when every broker takes certificates of clients that these have issued, and none of `no_more`."""
    tls = cluster.listener(listener).tls
    assert tls is not None
    assert tls.client_trust is not None
    write_pem(tls.client_trust, trusted=trusted)
    _read_again(cluster, listener, "ssl.truststore.location", tls.client_trust)
    for server in cluster.cluster.servers(listener).split(","):
        for authority in trusted:
            _await(partial(_lets_in, server, authority), f"trust of {server}")
        if no_more is not None:
            _await(partial(_keeps_out, server, no_more), f"mistrust of {server}")


def _read_again(cluster: SecuredCluster, listener: str, key: str, path: Path) -> None:
    """The path is the same as before: what a broker does when it is set again is to read the file again."""
    name = f"listener.name.{listener.lower()}.{key}"
    entry = ConfigEntry(name, str(path), incremental_operation=AlterConfigOpType.SET)
    brokers = [
        ConfigResource(ConfigResource.Type.BROKER, str(each.node_id), incremental_configs=[entry])
        for each in cluster.cluster.brokers
    ]
    admin = AdminClient({"bootstrap.servers": cluster.plain})
    for altered in admin.incremental_alter_configs(brokers).values():
        altered.result(TIMEOUT_S)


def shown_certificate(server: str) -> bytes:
    """What a broker at `host:port` shows to who connects now, in DER."""
    with _connected(server, _trusting_all()) as sealed:
        shown = sealed.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def _shows(server: str, certificate: bytes) -> bool:
    return shown_certificate(server) == certificate


def _lets_in(server: str, issuer: Authority) -> bool:
    """A client with a certificate that this authority has issued. With TLS 1.3 a refusal shows at the first answer."""
    context = _trusting_all()
    with tempfile.TemporaryDirectory() as directory:
        issued = issuer.issue(["somebody"], client=True)
        context.load_cert_chain(write_pem(Path(directory) / "client.pem", issued=issued))
    try:
        with _connected(server, context) as sealed:
            ask(sealed, ApiVersionsRequest(), ApiVersionsResponse, version=0)
    except (OSError, EOFError):
        return False
    return True


def _keeps_out(server: str, issuer: Authority) -> bool:
    return not _lets_in(server, issuer)


def _trusting_all() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def _connected(server: str, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    host, _, port = server.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection,
        context.wrap_socket(connection) as sealed,
    ):
        yield sealed


def _await(is_so: Callable[[], bool], what: str) -> None:
    """By all threads of the listener."""
    deadline = time.monotonic() + TIMEOUT_S
    while not all(is_so() for _ in range(NETWORK_THREADS)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} after {TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)
