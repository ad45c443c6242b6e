"""What brokers advertise as their address may be anything: one that is of no use is away, and the others are not."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataResponse

from heliograph.cluster.bootstrap_servers import is_address
from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.metadata import Broker, from_response
from heliograph.cluster.security.settings import (
    NO_SECURITY,
    Security,
    SecurityProtocol,
    StoreKind,
    TlsSettings,
    TrustStore,
)
from heliograph.model.errors import Disconnected

from .peers import peer, properties_for
from .security.tls_ends import HOST, TlsEnds, authority, server_context
from .test_client import METADATA_VERSION, HonestBroker, metadata

TRUST = TrustStore(kind=StoreKind.PEM, pem=authority().certificate_pem.decode())
SECURED = Security(protocol=SecurityProtocol.SSL, tls=TlsSettings(trust=TRUST))
BAD_HOSTS = ("", ".x", "a..b", "x" * 64, ".".join("a" * 200), "a\0b", "\ud800", "x" * 32_767)


@asynccontextmanager
async def two_brokers(security: Security) -> AsyncIterator[tuple[ClusterClient, int]]:
    """A client of a cluster whose broker 1 is well; and its port."""
    broker = HonestBroker()
    async with peer(broker.behave, server_context() if security.tls is not None else None) as port:
        broker.brokers = {1: port}
        client = ClusterClient("sf", properties_for(port, security=security))
        await client.connect()
        yield client, port
        await client.aclose()


@pytest.mark.parametrize("security", [NO_SECURITY, SECURED], ids=["plain", "tls"])
@pytest.mark.parametrize("host", BAD_HOSTS, ids=range(len(BAD_HOSTS)))
async def test_a_broker_that_advertises_no_host_name_is_away_and_the_others_are_not(
    host: str, security: Security
) -> None:
    async with two_brokers(security) as (client, port):
        brokers = {**client.metadata.brokers, 2: Broker(2, host, port)}
        client.metadata = replace(client.metadata, brokers=brokers)
        with pytest.raises(Disconnected, match="cluster 'sf': broker 2 cannot be reached") as raised:
            await client.connection(2, CONTROL)
        assert len(raised.value.message) < 300
        assert raised.value.message.isprintable()
        assert "advertised.listeners" in raised.value.hint
        assert not (await client.connection(1, CONTROL)).closed


@pytest.mark.parametrize("port", [-1, 0, 65_536, 2**31 - 1])
async def test_a_broker_that_advertises_no_port_is_away(port: int) -> None:
    async with two_brokers(NO_SECURITY) as (client, _):
        client.metadata = replace(client.metadata, brokers={2: Broker(2, HOST, port)})
        with pytest.raises(Disconnected, match=f"'127.0.0.1':{port}"):
            await client.connection(2, CONTROL)


def test_a_broker_without_a_host_has_an_address_that_is_none() -> None:
    """A string of length -1 is null, and kafka-python reads one where the protocol has none."""
    head, _, tail = metadata({1: 9092}, {}).partition(b"\0\x09127.0.0.1")
    told = from_response(MetadataResponse.decode(head + b"\xff\xff" + tail, version=METADATA_VERSION))
    assert not is_address(*told.brokers[1][1:3])


@given(st.text(max_size=300) | st.lists(st.text("aü.-:%\0 ", max_size=70), max_size=5).map(".".join))
@example("x" * 63)
@example("fe80::1%eth0")
def test_tls_takes_whatever_is_an_address(host: str) -> None:
    if is_address(host, 9093):
        TlsEnds.made().stream(host)


def test_openssl_refuses_a_bad_host_by_errors_of_many_kinds() -> None:
    """Which is why it is not given one."""
    for host in BAD_HOSTS:
        with pytest.raises((ValueError, TypeError, ssl.SSLError)):
            TlsEnds.made().stream(host)
