"""A server on loopback that treats every connection as badly as a test likes.

Owns the port and the threads: one for each connection, so that a peer never stops the event loop of the client under
test. Must not know what is said: a behaviour is given the socket, and the connection is closed when it returns.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from .certificates import Issued, write_pem

Behaviour = Callable[[socket.socket], None]
LOOPBACK = "127.0.0.1"
NAME = "hostile-peer"


class Peer:
    """`connections`: how many came so far."""

    def __init__(self, behaviour: Behaviour, tls: ssl.SSLContext | None) -> None:
        self._behaviour = behaviour
        self._tls = tls
        self._listening = socket.create_server((LOOPBACK, 0))
        self._accepted: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, name=NAME)
        self._treating: list[threading.Thread] = []
        self.port: int = self._listening.getsockname()[1]

    @property
    def connections(self) -> int:
        return len(self._accepted)

    def start(self) -> None:
        self._accepting.start()

    def end(self) -> None:
        _wake(self._listening)
        self._accepting.join()
        self._listening.close()
        for connection in self._accepted:
            _wake(connection)
        for thread in self._treating:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:  # woken: the test is over
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            self._accepted.append(connection)
            self._treating.append(threading.Thread(target=self._treat, args=(connection,), name=NAME))
            self._treating[-1].start()

    def _treat(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, EOFError):  # the client has left, or the test is over
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            self._behaviour(connection)


def _wake(waiting: socket.socket) -> None:
    """Whoever waits in a call on this socket returns, which a close would not do. Of the plain socket, also below TLS:
    an SSLSocket would throw away what the other thread works with."""
    with contextlib.suppress(OSError):  # it has ended by itself
        socket.socket.shutdown(waiting, socket.SHUT_RDWR)


@contextlib.contextmanager
def hostile_peer(behaviour: Behaviour, *, tls: ssl.SSLContext | None = None) -> Iterator[Peer]:
    """`tls`: what it does, it does inside of TLS, after a handshake as it should be."""
    peer = Peer(behaviour, tls)
    peer.start()
    try:
        yield peer
    finally:
        peer.end()


def server_context(issued: Issued) -> ssl.SSLContext:
    """Of a server that has this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        context.load_cert_chain(write_pem(Path(directory) / "server.pem", issued=issued))
    return context


def say_nothing(connection: socket.socket) -> None:
    """Accepts, takes whatever comes, and never answers."""
    while connection.recv(1 << 16):
        pass


def close_at_once(_connection: socket.socket) -> None:
    """Accepts and closes."""


def speak_plain_text(connection: socket.socket) -> None:
    """Answers the first bytes with a line of HTTP, as a web server does that was not spoken to in HTTP, and closes."""
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
