"""A KDC that hangs: it is told as that, in bounded time, holds up no other cluster, and no process that ends."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from heliograph.cluster.security import sasl_threads
from heliograph.cluster.security.kerberos import KerberosExchange
from heliograph.cluster.security.mechanisms import exchange_for
from heliograph.cluster.security.sasl_threads import MOST_THREADS, DaemonThreads, begin, reply
from heliograph.cluster.security.settings import KerberosSettings, SaslMechanism, SaslSettings
from heliograph.model.errors import AuthenticationFailed, SecurityFailed

LIMIT_S, SHORT_LIMIT_S = 0.4, 0.1
_numbers = itertools.count()

ENDS_WHILE_A_KDC_HANGS = """
import asyncio, threading
from heliograph.cluster.security.sasl_threads import DaemonThreads

async def ask():
    try:
        await DaemonThreads("kdc").call(lambda: threading.Event().wait(60), 0.1)
    except TimeoutError:
        print("given up")

asyncio.run(ask())
"""


def new_login() -> SaslSettings:
    """One that no other test has."""
    kerberos = KerberosSettings(
        service_name="kafka", principal=f"mirror-{next(_numbers)}@A.TEST", keytab="/etc/m"
    )
    return SaslSettings(mechanism=SaslMechanism.GSSAPI, kerberos=kerberos)


@dataclass
class Asked:
    """An exchange whose KDC answers when it is let."""

    answers: threading.Event = field(default_factory=threading.Event)

    def first(self) -> bytes:
        self.answers.wait(60)
        return b"ticket"

    def next(self, challenge: bytes) -> bytes | None:
        self.answers.wait(60)
        return challenge

    def refused(self, words: str) -> SecurityFailed:
        return SecurityFailed(words)

    def late(self, limit_s: float) -> SecurityFailed:
        return SecurityFailed(f"late by {limit_s}")


def good() -> Asked:
    asked = Asked()
    asked.answers.set()
    return asked


@pytest.fixture
def hanging() -> Iterator[Asked]:
    asked = Asked()
    yield asked
    asked.answers.set()


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl_threads, "KDC_LIMIT_S", LIMIT_S)
    monkeypatch.setattr(sasl_threads, "GOOD_TICKETS_LIMIT_S", SHORT_LIMIT_S)
    monkeypatch.setattr(sasl_threads, "REPLY_LIMIT_S", LIMIT_S)


async def seconds_of_failure(login: SaslSettings, asked: Asked) -> float:
    begun = time.monotonic()
    with pytest.raises(SecurityFailed, match=f"late by {LIMIT_S}"):
        await begin(login, lambda: asked)
    return time.monotonic() - begun


async def test_a_kdc_that_hangs_is_given_up_and_nobody_else_waits_for_it(hanging: Asked) -> None:
    login = new_login()
    assert LIMIT_S <= await seconds_of_failure(login, hanging) < 3.0
    assert await seconds_of_failure(login, hanging) < SHORT_LIMIT_S


async def test_a_kdc_that_answers_again_has_all_its_time_again(hanging: Asked) -> None:
    login = new_login()
    await seconds_of_failure(login, hanging)
    hanging.answers.set()
    await asyncio.sleep(0.05)
    assert await seconds_of_failure(login, Asked()) >= LIMIT_S


async def test_who_hangs_while_tickets_are_renewed_goes_on_with_those_that_are_good(hanging: Asked) -> None:
    login, exchanges = new_login(), iter([good(), hanging, good(), good()])
    for _ in range(3):
        assert (await begin(login, lambda: next(exchanges)))[1] == b"ticket"


async def test_who_has_had_tickets_looks_for_good_ones_while_a_kdc_hangs(hanging: Asked) -> None:
    login = new_login()
    await begin(login, good)
    assert await seconds_of_failure(login, hanging) >= LIMIT_S + SHORT_LIMIT_S
    assert SHORT_LIMIT_S <= await seconds_of_failure(login, hanging) < LIMIT_S


async def test_a_kdc_that_hangs_holds_up_neither_another_cluster_nor_replies(hanging: Asked) -> None:
    login = new_login()
    waiting = [asyncio.create_task(begin(login, lambda: hanging)) for _ in range(2 * MOST_THREADS)]
    await asyncio.sleep(0.05)
    async with asyncio.timeout(LIMIT_S / 2):
        assert (await begin(new_login(), good))[1] == b"ticket"
        assert await reply(good(), b"challenge") == b"challenge"
    assert all(
        isinstance(end, SecurityFailed) for end in await asyncio.gather(*waiting, return_exceptions=True)
    )


async def test_a_reply_that_does_not_come_is_given_up(hanging: Asked) -> None:
    with pytest.raises(SecurityFailed, match="late"):
        await reply(hanging, b"challenge")


async def test_what_a_call_raises_is_raised() -> None:
    def refuse() -> None:
        raise AuthenticationFailed("wrong key")

    with pytest.raises(AuthenticationFailed, match="wrong key"):
        await DaemonThreads("test").call(refuse, LIMIT_S)


async def test_no_more_threads_are_started_than_are_needed() -> None:
    threads = DaemonThreads("few-threads", most=3)
    for _ in range(10):
        await threads.call(lambda: time.sleep(0.01), LIMIT_S)
    assert sum(each.name == "few-threads" for each in threading.enumerate()) <= 2
    await asyncio.gather(*(threads.call(lambda: time.sleep(0.01), 5.0) for _ in range(30)))
    assert sum(each.name == "few-threads" for each in threading.enumerate()) == 3


async def test_what_was_given_up_before_it_was_begun_is_never_begun(hanging: Asked) -> None:
    threads, ran = DaemonThreads("test", most=1), threading.Event()
    for call in (hanging.first, ran.set):
        with pytest.raises(TimeoutError):
            await threads.call(call, SHORT_LIMIT_S)
    assert threads.is_overdue
    hanging.answers.set()
    assert await threads.call(lambda: "next", 5.0) == "next"
    assert not ran.is_set()
    assert not threads.is_overdue


def test_a_process_ends_while_a_kdc_hangs() -> None:
    begun = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_A_KDC_HANGS], capture_output=True, timeout=50, check=True
    )
    assert ended.stdout == b"given up\n"
    assert time.monotonic() - begun < 30


def test_a_kdc_that_hangs_is_told_with_its_realm_and_where_it_is_set() -> None:
    login = new_login().kerberos
    assert login is not None
    problem = KerberosExchange(login, "broker.a.test").late(8.0)
    assert type(problem) is SecurityFailed
    assert problem.message.startswith("no KDC of realm A.TEST answers ")
    assert login.principal in problem.message
    assert "broker.a.test" in problem.message
    assert problem.message.endswith("no answer in 8 s")
    assert "[realms]" in problem.hint


def test_a_password_that_is_not_computed_in_time_is_told_without_it() -> None:
    sasl = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_256, username="alice", password="open-sesame")
    problem = exchange_for(sasl, "host").late(30.0)
    assert "SCRAM-SHA-256 as 'alice'" in problem.message
    assert "open-sesame" not in problem.message + problem.hint
