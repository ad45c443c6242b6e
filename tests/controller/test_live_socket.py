"""The live socket, with real Unix sockets in a runtime directory of the test's own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.controller import live_socket
from heliograph.controller.live_socket import LiveSocket, ask_all, runtime_directory
from heliograph.model.occurrence_log import logged


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "heliograph"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def while_running(describe: Callable[[], dict[str, Any]], act: Callable[[], Awaitable[Any]]) -> Any:
    """What `act` gives while a mirror of this process answers."""

    async def session() -> Any:
        live = LiveSocket(describe, logged())
        await live.start()
        try:
            return await act()
        finally:
            await live.stop()

    return asyncio.run(session())


async def ask() -> list[dict[str, Any]]:
    return await asyncio.to_thread(ask_all)


@contextlib.contextmanager
def other_mirror(directory: Path, name: str, answer: bytes) -> Iterator[None]:
    """A listener of another process: it gives each connection these bytes and closes it."""
    directory.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / name))
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(ConnectionError):
                peer.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        yield
        server.join(5)
        assert not server.is_alive()


def stale_socket(directory: Path, name: str) -> Path:
    """What a killed process leaves: a socket that nobody listens on."""
    directory.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(directory / name))
    return directory / name


def test_nobody_answers_where_no_mirror_ever_ran(directory: Path) -> None:
    assert ask_all() == []
    assert not directory.exists()


def test_a_running_mirror_answers_every_question_with_what_is_true_then() -> None:
    asked = iter(range(10))

    async def twice() -> Any:
        return await ask() + await ask()

    assert while_running(lambda: {"asked": next(asked)}, twice) == [{"asked": 0}, {"asked": 1}]


def test_a_document_of_many_partitions_arrives_whole() -> None:
    large = {"partitions": ["x" * 100] * 20_000}
    assert while_running(lambda: large, ask) == [large]


def test_only_its_user_can_enter_the_directory(directory: Path) -> None:
    async def look() -> int:
        return mode_of(directory)

    umask = os.umask(0)
    try:
        assert while_running(dict, look) == 0o700
    finally:
        os.umask(umask)


def test_a_directory_that_others_could_enter_is_closed_to_them(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)

    async def look() -> int:
        return mode_of(directory)

    assert while_running(dict, look) == 0o700


def test_nothing_is_left_behind_when_the_mirror_ends(directory: Path) -> None:
    async def look() -> list[str]:
        return os.listdir(directory)

    assert while_running(dict, look) == [f"{os.getpid()}.sock"]
    assert not directory.exists()


def test_ending_leaves_the_sockets_of_others(directory: Path) -> None:
    theirs = stale_socket(directory, "1.sock")

    async def nothing() -> None:
        return None

    while_running(dict, nothing)
    assert theirs.exists()


def test_a_mirror_that_never_started_can_be_stopped() -> None:
    asyncio.run(LiveSocket(dict, logged()).stop())


def test_a_socket_whose_process_was_killed_is_removed_by_whoever_asks(directory: Path) -> None:
    left = stale_socket(directory, "999999.sock")
    assert ask_all() == []
    assert not left.exists()


def test_a_socket_of_a_process_that_does_not_listen_yet_is_left_to_it(directory: Path) -> None:
    """Between the two calls that make it: whoever asks then must not make the mirror unaskable for good."""
    its = stale_socket(directory, f"{os.getpid()}.sock")
    assert ask_all() == []
    assert its.exists()


def test_a_socket_left_by_a_process_of_the_same_number_is_in_nobodys_way(directory: Path) -> None:
    stale_socket(directory, f"{os.getpid()}.sock")
    assert while_running(lambda: {"up": True}, ask) == [{"up": True}]


def test_two_mirrors_both_answer_beside_a_stale_socket(directory: Path) -> None:
    left = stale_socket(directory, "0.sock")
    with other_mirror(directory, "1.sock", b'{"who": "other"}'):
        answers = while_running(lambda: {"who": "us"}, ask)
    assert sorted(answer["who"] for answer in answers) == ["other", "us"]
    assert not left.exists()


@pytest.mark.parametrize(
    "garbage",
    [b"", b"not json", b'{"cut": ', b"\xff\xfe\x00", b"[1, 2]", b"null", b"7", b"[" * 100_000],
    ids=["nothing", "text", "cut", "bytes", "list", "null", "number", "deep"],
)
def test_garbage_is_ignored_and_the_others_are_still_heard(directory: Path, garbage: bytes) -> None:
    with other_mirror(directory, "1.sock", garbage):
        assert while_running(lambda: {"who": "us"}, ask) == [{"who": "us"}]


def test_a_document_over_the_limit_is_ignored(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_socket, "READ_LIMIT_BYTES", 1 << 20)
    huge = b'{"a": "' + b"x" * (4 << 20) + b'"}'
    with other_mirror(directory, "1.sock", huge):
        assert while_running(lambda: {"who": "us"}, ask) == [{"who": "us"}]


def test_a_mirror_that_hangs_is_waited_for_only_so_long(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_socket, "READ_TIMEOUT_S", 0.05)
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "1.sock"))
        listener.listen()  # the system accepts; nobody ever answers
        assert while_running(lambda: {"who": "us"}, ask) == [{"who": "us"}]
    assert (directory / "1.sock").exists()


def test_one_who_asks_and_leaves_does_not_disturb_the_mirror() -> None:
    async def leave_then_ask() -> Any:
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(runtime_directory() / f"{os.getpid()}.sock"))
        await asyncio.sleep(0.02)
        return await ask()

    assert while_running(lambda: {"large": "x" * 1_000_000}, leave_then_ask) == [{"large": "x" * 1_000_000}]


def test_without_a_runtime_directory_the_users_own_one_under_tmp_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert runtime_directory().name == f"heliograph-{os.getuid()}"
