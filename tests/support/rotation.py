"""Passwords and certificates that change while brokers run, as their operators change them.

Owns the requests and the wait until a broker has taken them. Must not know who is connected meanwhile.
"""

from __future__ import annotations

import socket
import ssl
import time

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

from heliograph.lab.listeners import SCRAM_ITERATIONS

from .certificates import Issued, write_pem
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
    # The path is the same as before: what a broker does when it is set again is to read the file again.
    key = f"listener.name.{listener.lower()}.ssl.keystore.location"
    entry = ConfigEntry(key, str(tls.keystore), incremental_operation=AlterConfigOpType.SET)
    brokers = [
        ConfigResource(ConfigResource.Type.BROKER, str(each.node_id), incremental_configs=[entry])
        for each in cluster.cluster.brokers
    ]
    admin = AdminClient({"bootstrap.servers": cluster.plain})
    for altered in admin.incremental_alter_configs(brokers).values():
        altered.result(TIMEOUT_S)
    for server in cluster.cluster.servers(listener).split(","):
        _await_certificate(server, issued.certificates[0].public_bytes(Encoding.DER))


def shown_certificate(server: str) -> bytes:
    """What a broker at `host:port` shows to who connects now, in DER."""
    host, _, port = server.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection,
        context.wrap_socket(connection) as sealed,
    ):
        shown = sealed.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def _await_certificate(server: str, wanted: bytes) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while any(shown_certificate(server) != wanted for _ in range(NETWORK_THREADS)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{server} shows its old certificate after {TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)
