"""The control line is sealed: who listens learns nothing, who stands between is noticed, and so is another driver."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from heliograph.copier.lane_clusters import LinkClusters
from heliograph.engine.line_certificate import LineCertificate, new_certificate
from heliograph.engine.line_tls import SealedStream, lane_context
from heliograph.engine.orders import OpenLinks

from .line_ends import (
    HELLO,
    SECRET,
    SOON_S,
    Address,
    Between,
    Driver,
    LaneEnd,
    connected,
    stranger_at,
)

PASSWORD = "correct-horse-battery"
SECURED = LinkClusters(
    link="sf-to-nyc",
    source="sf",
    target="nyc",
    source_properties={"sasl.jaas.config": f'... username="u" password="{PASSWORD}";'},
    target_properties={"ssl.key.password": PASSWORD},
)


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.server.stop()


# -- somebody on the way


def test_who_listens_sees_no_secret(driver: Driver) -> None:
    between = Between(driver)
    lane = connected(driver, address=between.address)
    driver.server.send(1, OpenLinks(links=(SECURED,)))
    assert lane.heard.get(timeout=SOON_S) == OpenLinks(links=(SECURED,))
    lane.line.send(HELLO)
    assert driver.heard.get(timeout=SOON_S) == (1, HELLO)
    lane.line.close()
    between.close()
    assert len(between.seen) > 1000
    for secret in (PASSWORD.encode(), b"jaas", b"sf-to-nyc", b"challenge", HELLO.host.encode(), SECRET):
        assert secret not in between.seen


def test_what_somebody_changes_on_its_way_is_no_order_and_ends_the_line(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    changes = False
    between = Between(driver, lambda chunk: chunk[:-1] + bytes([chunk[-1] ^ 1]) if changes else chunk)
    lane = connected(driver, address=between.address)
    changes = True
    driver.server.send(1, OpenLinks(links=(SECURED,)))
    assert "BAD_RECORD_MAC" in lane.ends.get(timeout=SOON_S)
    lane.line.send(HELLO)
    lane.line.close()
    assert driver.gone.get(timeout=SOON_S) == 1
    between.close()
    assert lane.heard.empty()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


# -- another driver


class Impostor:
    """A server at a driver's address, in its own way: `greet(connection)`. `got`: what it was sent, once opened."""

    def __init__(self, greet: Callable[[socket.socket], socket.socket]) -> None:
        self.got: list[bytes] = []
        self._greet = greet
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(SOON_S)
        self.address: Address = self._listening.getsockname()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        connection.settimeout(SOON_S)
        try:
            opened = self._greet(connection)
            with opened:
                self.got.append(opened.recv(4096))
        except (ssl.SSLError, ConnectionError):
            self.got.append(b"")  # the lane has left
        finally:
            connection.close()

    def close(self) -> None:
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()
        self._listening.close()


def end_at(impostor: Impostor, certificate: LineCertificate) -> str:
    """Why a lane leaves it that looks for the driver with this certificate."""
    lane = LaneEnd(impostor.address, certificate.fingerprint)
    lane.line.send(HELLO)
    end = lane.ends.get(timeout=SOON_S)
    lane.line.close()
    impostor.close()
    return end


def test_a_driver_with_another_certificate_is_refused_and_gets_nothing() -> None:
    theirs = new_certificate().context
    impostor = Impostor(lambda connection: theirs.wrap_socket(connection, server_side=True))
    end = end_at(impostor, new_certificate())
    assert (
        end == "the control line failed: the certificate at the driver's address is not the one of this run"
    )
    assert impostor.got == [b""]


def test_a_driver_of_another_run_is_refused_though_it_has_the_secret(driver: Driver) -> None:
    other = LaneEnd(driver.address, new_certificate().fingerprint)
    assert "not the one of this run" in other.ends.get(timeout=SOON_S)
    other.line.close()
    assert driver.heard.empty()
    assert driver.gone.empty()


def test_a_driver_that_speaks_in_the_clear_is_refused_and_gets_nothing_of_ours() -> None:
    def greet(connection: socket.socket) -> socket.socket:
        connection.sendall(b'\0\0\0\x12{"challenge":"ab"}')
        hello = connection.recv(4096)
        assert hello[:1] == b"\x16"  # a lane's first bytes are a handshake
        assert SECRET not in hello
        return connection

    impostor = Impostor(greet)
    assert "the peer does not speak TLS 1.3" in end_at(impostor, new_certificate())
    (rest,) = impostor.got
    assert len(rest) <= 7  # an alert


def test_older_versions_of_tls_are_spoken_by_neither_end(driver: Driver) -> None:
    certificate = new_certificate()
    certificate.context.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate.context.maximum_version = ssl.TLSVersion.TLSv1_2
    impostor = Impostor(lambda connection: certificate.context.wrap_socket(connection, server_side=True))
    assert "the peer does not speak TLS 1.3" in end_at(impostor, certificate)
    assert impostor.got == [b""]

    older = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    older.check_hostname, older.verify_mode = False, ssl.CERT_NONE
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with stranger_at(driver) as stranger, pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
        older.wrap_socket(stranger)


# -- the stream


async def ends(certificate: LineCertificate) -> tuple[SealedStream, SealedStream, asyncio.Server]:
    """A lane's and the driver's, after the handshake."""
    accepted: asyncio.Queue[SealedStream] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = SealedStream(reader, writer, certificate.context, server_side=True)
        await line.handshake()
        accepted.put_nowait(line)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    streams = await asyncio.open_connection(*server.sockets[0].getsockname())
    lane = SealedStream(*streams, lane_context(), server_side=False)
    await lane.handshake()
    return lane, await accepted.get(), server


async def test_what_is_written_is_read_in_any_pieces() -> None:
    lane, driver, server = await ends(new_certificate())
    text = os.urandom(3_000_000)
    driver.write(text[:1])
    driver.write(text[1:])
    assert await lane.readexactly(0) == b""
    assert await lane.readexactly(1) == text[:1]
    assert await lane.readexactly(len(text) - 2) == text[1:-1]
    assert await lane.readexactly(1) == text[-1:]
    lane.write(b"back")
    assert await driver.readexactly(4) == b"back"
    driver.write(b"the end")
    driver.close()
    with pytest.raises(asyncio.IncompleteReadError) as cut:
        await lane.readexactly(100)
    assert cut.value.partial in (b"the end", b"")
    lane.close()
    server.close()


# -- the certificate


def test_a_certificate_is_known_by_the_hash_of_what_the_driver_shows(driver: Driver) -> None:
    with lane_context().wrap_socket(stranger_at(driver)) as tls:
        shown = tls.getpeercert(binary_form=True)
        assert tls.version() == "TLSv1.3"
    assert shown is not None
    assert hashlib.sha256(shown).digest() == driver.server.fingerprint


def test_every_run_has_a_certificate_of_its_own() -> None:
    assert new_certificate().fingerprint != new_certificate().fingerprint


def test_a_private_key_is_in_no_file_and_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []
    load = ssl.SSLContext.load_cert_chain

    def note(context: ssl.SSLContext, path: str, **password: str) -> None:
        paths.append(os.readlink(path))
        load(context, path, **password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", note)
    opened = set(os.listdir("/proc/self/fd"))
    certificate = new_certificate()
    assert set(os.listdir("/proc/self/fd")) == opened
    assert paths == ["/memfd:heliograph-key (deleted)"]
    assert "SSLContext" not in repr(certificate)


def test_a_lane_loads_nothing_that_makes_certificates() -> None:
    code = "import sys, heliograph.engine.lane_task; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
