"""The answers are written by hand, as brokers of both kinds write them."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from heliograph.lab.probe import answers, live_brokers

BROKER = struct.pack(">ih9si", 7, 9, b"127.0.0.1", 9092)
NO_RACK = struct.pack(">h", -1)


def test_a_broker_that_knows_of_none_answers_all_the_same() -> None:
    def serve(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(struct.pack(">iiii", 12, 0, 0, 0))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        port = listener.getsockname()[1]
        assert answers(port, 0)
        assert live_brokers(port, 0) == frozenset()
        serving.join()
    assert not answers(port, 0)


@pytest.mark.parametrize(("version", "broker"), [(0, BROKER), (1, BROKER + NO_RACK)])
def test_the_brokers_of_either_version_are_read(version: int, broker: bytes) -> None:
    asked: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(100))
            answer = struct.pack(">ii", 0, 1) + broker + struct.pack(">i", 0)
            connection.sendall(struct.pack(">i", len(answer)) + answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        assert live_brokers(listener.getsockname()[1], version) == {7}
        serving.join()
    assert asked == [struct.pack(">ihhihi", 14, 3, version, 0, -1, 0)]
