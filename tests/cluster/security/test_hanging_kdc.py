"""A KDC that takes packets and never answers, asked by the system's own library: what a run says of it, and when."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path

import pytest

from tests.cluster.peers import peer

from .sasl_peer import SaslPeer
from .test_keytab import MAGIC, entry

CONNECT = """
import asyncio, sys, time
from heliograph.cluster.security import sasl_threads
from heliograph.controller.clusters import Clusters
from heliograph.model.errors import ClusterUnreachable
from heliograph.model.link import Link
from heliograph.model.settings import Settings

sasl_threads.KDC_LIMIT_S = 2.0
keytab, *ports = sys.argv[1:]
jaas = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
sf = {
    "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports),
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "sasl.jaas.config": f'{jaas} keyTab="{keytab}" principal="mirror@A.TEST";',
}

async def connect():
    links = tuple(Link(name=name, source="sf", target="sf", topics=(".*",)) for name in "ab")
    clusters = Clusters(Settings(clusters={"sf": sf}, links=links))
    try:
        await clusters.connect()
    finally:
        await clusters.aclose()

try:
    asyncio.run(connect())
except ClusterUnreachable as problem:
    print(problem.message, problem.hint, sep="\\n")
"""


@contextlib.contextmanager
def deaf_kdc() -> Iterator[int]:
    """Its port, UDP and TCP."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        port: int = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        yield port


@pytest.mark.skipif(find_library("gssapi_krb5") is None, reason="needs libgssapi-krb5-2")
async def test_a_kdc_that_hangs_is_named_and_delays_neither_the_message_nor_the_end(tmp_path: Path) -> None:
    keytab, config = tmp_path / "mirror.keytab", tmp_path / "krb5.conf"
    keytab.write_bytes(MAGIC + entry("A.TEST", "mirror"))
    broker = SaslPeer(mechanisms=("GSSAPI",))
    async with peer(broker.behave) as first, peer(broker.behave) as second:
        with deaf_kdc() as port:
            config.write_text(
                "[libdefaults]\n default_realm = A.TEST\n dns_canonicalize_hostname = false\n rdns = false\n"
                f"[realms]\n A.TEST = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
            )
            begun = time.monotonic()
            run = await printed_by(CONNECT, str(keytab), str(first), str(second), config=config)
            took_s = time.monotonic() - begun
    assert "no KDC of realm A.TEST answers" in run
    assert "no answer in 2 s" in run
    assert str(config) in run
    assert "did not answer in 12 s" not in run
    assert "bootstrap.servers" not in run
    assert took_s < 15
    assert not broker.tokens


async def printed_by(script: str, *arguments: str, config: Path) -> str:
    """What a Python of its own prints: the library reads the environment at any time."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "KRB5_CONFIG": str(config)},
    )
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    return printed.decode()
