"""No account is locked by a mirror: a secret that a cluster refuses is shown to it once, however many connections there
are and however long the refusal takes; and nobody waits longer than that needs."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from heliograph.cluster.security.attempts import MOST_AT_ONCE, MOST_SECRETS, Attempts
from heliograph.cluster.security.cluster_locks import KDC_PATIENCE_S
from heliograph.cluster.security.settings import SaslMechanism, SaslSettings
from heliograph.model.errors import AuthenticationFailed, RequestTimedOut, SecurityFailed
from heliograph.wire.api_keys import ApiKey
from tests.cluster.peers import peer

from .sasl_door import ALICE, BOB, KERBEROS, PASSWORD, Door, door, secured, until
from .sasl_peer import SaslPeer, Ticket, accept, refuse

# Longer than brokers keep a refusal back (connection.failed.authentication.delay.ms), and slow directories.
SLOW_S = 0.6
PATIENT_MS = 5000
GOOD, OTHER = "good", "other"
REFUSAL = AuthenticationFailed("wrong password", hint="mend it")


# -- a secret that is refused


async def test_a_secret_that_was_refused_is_not_tried_again() -> None:
    broker = SaslPeer(refuse)
    async with door(broker) as it:
        for _ in range(5):
            with pytest.raises(AuthenticationFailed):
                await it.open()
        assert len(broker.tokens) == 1


async def test_of_two_secrets_that_are_refused_on_one_cluster_each_is_tried_once() -> None:
    broker = SaslPeer(refuse)
    async with peer(broker.behave) as port:
        attempts = Attempts()
        doors = [Door(port, sasl, attempts=attempts) for sasl in (ALICE, BOB)]
        for _ in range(5):
            for it, name in zip(doors, ("alice", "bob"), strict=True):
                with pytest.raises(AuthenticationFailed, match=name):
                    await it.open()
    assert len(broker.tokens) == 2


async def test_another_secret_is_tried_after_a_refusal_and_the_refused_one_never_again() -> None:
    broker = SaslPeer(lambda token: refuse(token) if token.endswith(PASSWORD.encode()) else accept(token))
    other = SaslSettings(mechanism=SaslMechanism.PLAIN, username="alice", password="another")
    async with door(broker) as it:
        with pytest.raises(AuthenticationFailed):
            await it.open()
        it.locks.use(secured(other))
        (await it.open()).close()
        (await it.open()).close()
        it.locks.use(secured(ALICE))
        with pytest.raises(AuthenticationFailed, match="not tried again"):
            await it.open()
    assert len(broker.tokens) == 3


@pytest.mark.parametrize("delay_s", [0.02, SLOW_S])
async def test_of_many_connections_at_once_one_tries_first(delay_s: float) -> None:
    broker = SaslPeer(refuse, delays_s={ApiKey.SASL_AUTHENTICATE: delay_s})
    async with door(broker, timeout_ms=PATIENT_MS) as it:
        ends = await asyncio.gather(*(it.open() for _ in range(20)), return_exceptions=True)
        assert all(isinstance(end, AuthenticationFailed) for end in ends)
        assert len(broker.tokens) == 1


@pytest.mark.parametrize("delay_s", [0.02, SLOW_S])
async def test_of_many_connections_with_a_password_that_has_changed_one_tries_first(delay_s: float) -> None:
    broker = SaslPeer()
    async with door(broker, timeout_ms=PATIENT_MS) as it:
        (await it.open()).close()
        broker.seen.clear()
        broker.judge, broker.delays_s = refuse, {ApiKey.SASL_AUTHENTICATE: delay_s}
        ends = await asyncio.gather(*(it.open() for _ in range(20)), return_exceptions=True)
        assert all(isinstance(end, AuthenticationFailed) for end in ends)
    assert len(broker.tokens) == 1


@pytest.mark.parametrize("delay_s", [0.1, SLOW_S])
async def test_of_many_sessions_that_end_one_tries_first_whether_the_secret_is_still_good(
    delay_s: float,
) -> None:
    broker = SaslPeer(lasts_ms=300)
    async with door(broker, timeout_ms=PATIENT_MS) as it:
        connections = [await it.open() for _ in range(20)]
        broker.seen.clear()
        broker.judge, broker.delays_s = refuse, {ApiKey.SASL_AUTHENTICATE: delay_s}
        await until(lambda: all(connection.closed for connection in connections), 5)
    assert len(broker.tokens) == 1


async def test_a_key_that_a_kdc_refuses_is_shown_to_it_once() -> None:
    class Refused(Ticket):
        def first(self) -> bytes:
            super().first()
            raise REFUSAL

    shown = [Refused() for _ in range(20)]
    waiting = iter(shown)
    async with door(SaslPeer(), KERBEROS, make_exchange=lambda *_: next(waiting)) as it:
        ends = await asyncio.gather(*(it.open() for _ in shown), return_exceptions=True)
        assert all(isinstance(end, AuthenticationFailed) for end in ends)
    assert sum(each.asked.is_set() for each in shown) == 1


async def test_many_secrets_are_remembered_and_those_in_use_before_all_others() -> None:
    attempts = Attempts()
    with pytest.raises(AuthenticationFailed):
        await end_in(attempts, REFUSAL)
    async with attempts.turn("at work"):
        for number in range(2 * MOST_SECRETS):
            async with attempts.turn(f"secret {number}"):
                pass
            with pytest.raises(AuthenticationFailed):
                attempts.check(GOOD)
        other = asyncio.create_task(enter(attempts, "at work"))
        await asyncio.sleep(0.01)
        assert not other.done()
    await other
    assert len(attempts._secrets) == MOST_SECRETS


# -- turns


async def enter(attempts: Attempts, secret: str, at_once: int = 1) -> None:
    async with attempts.turn(secret, at_once=at_once):
        pass


async def end_in(attempts: Attempts, end: BaseException) -> None:
    async with attempts.turn(GOOD):
        await asyncio.sleep(0.01)
        raise end


class Crowd:
    """Shows a secret many times. `most`: how many did so at once."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._inside = 0
        self.entered = 0
        self.most = 0

    async def enter(self, at_once: int) -> None:
        async with self._attempts.turn(GOOD, at_once=at_once):
            self._inside += 1
            self.entered += 1
            self.most = max(self.most, self._inside)
            await asyncio.sleep(0.02)
            self._inside -= 1


async def test_those_who_wait_behind_one_that_was_let_in_go_a_few_at_a_time() -> None:
    crowd = Crowd(Attempts())
    entering = [asyncio.create_task(crowd.enter(MOST_AT_ONCE)) for _ in range(20)]
    await asyncio.sleep(0.01)
    assert crowd.entered == 1
    await asyncio.gather(*entering)
    assert crowd.most == MOST_AT_ONCE


async def test_when_nobody_waits_any_more_the_next_goes_alone_again() -> None:
    attempts = Attempts()
    crowd = Crowd(attempts)
    await asyncio.gather(*(crowd.enter(MOST_AT_ONCE) for _ in range(5)))
    async with attempts.turn(GOOD):
        entering = [asyncio.create_task(crowd.enter(MOST_AT_ONCE)) for _ in range(5)]
        await asyncio.sleep(0.01)
        assert crowd.entered == 5
    await asyncio.gather(*entering)


async def test_sessions_are_renewed_one_at_a_time_and_are_not_passed_by_those_who_come_later() -> None:
    attempts = Attempts()
    renewing, opening = Crowd(attempts), Crowd(attempts)
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(renewing.enter(1))
        for _ in range(5):
            group.create_task(opening.enter(MOST_AT_ONCE))
        await until(lambda: opening.entered > 0)
        assert renewing.entered == 5
    assert renewing.most == 1
    assert 1 < opening.most <= MOST_AT_ONCE


async def test_good_secrets_of_one_cluster_do_not_wait_for_each_other() -> None:
    attempts = Attempts()
    async with attempts.turn(GOOD), asyncio.timeout(0.1):
        for _ in range(5):
            await enter(attempts, OTHER)


async def test_whoever_gives_up_waiting_holds_up_nobody() -> None:
    attempts = Attempts()
    async with attempts.turn(GOOD):
        waiting = [asyncio.create_task(enter(attempts, GOOD)) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        waiting[2].cancel()
    async with asyncio.timeout(1):
        await waiting[1]
        await enter(attempts, GOOD)


@pytest.mark.parametrize(
    "end", [asyncio.CancelledError(), RequestTimedOut("no answer"), SecurityFailed("no")]
)
async def test_one_that_is_not_answered_gives_its_turn_to_one_other(end: BaseException) -> None:
    attempts = Attempts()
    crowd = Crowd(attempts)
    first = asyncio.create_task(end_in(attempts, end))
    entering = [asyncio.create_task(crowd.enter(MOST_AT_ONCE)) for _ in range(3)]
    with pytest.raises(type(end)):
        await first
    await asyncio.sleep(0.01)
    assert crowd.entered == 1
    await asyncio.gather(*entering)


async def test_all_who_wait_hear_of_a_refusal_as_if_it_was_theirs() -> None:
    attempts = Attempts()
    first = asyncio.create_task(end_in(attempts, REFUSAL))
    waiting = [asyncio.create_task(enter(attempts, GOOD)) for _ in range(3)]
    with pytest.raises(AuthenticationFailed):
        await first
    for refused in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(refused, AuthenticationFailed)
        assert REFUSAL.message in refused.message
        assert refused.hint == REFUSAL.hint


# -- brokers and KDCs that hang


async def test_a_broker_that_hangs_before_it_is_shown_the_secret_holds_nobody_up() -> None:
    broker, hanging = SaslPeer(), SaslPeer()
    attempts = Attempts()
    async with AsyncExitStack() as stack:
        good = Door(await stack.enter_async_context(peer(broker.behave)), ALICE, attempts=attempts)
        hung = Door(await stack.enter_async_context(peer(hanging.behave)), ALICE, attempts=attempts)
        (await good.open()).close()
        hanging.delays_s[ApiKey.SASL_HANDSHAKE] = 0.4
        opening = asyncio.create_task(hung.open())
        await until(lambda: hanging.seen == [(ApiKey.SASL_HANDSHAKE, b"")])
        async with asyncio.timeout(0.2):
            (await good.open()).close()
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)


async def test_a_broker_that_was_shown_the_secret_is_waited_for_until_its_time_is_over() -> None:
    broker = SaslPeer()
    async with door(broker) as it:
        (await it.open()).close()
        broker.delays_s[ApiKey.SASL_AUTHENTICATE] = 10.0
        began = asyncio.get_running_loop().time()
        hung = asyncio.create_task(it.open())
        await until(lambda: len(broker.tokens) == 2)
        broker.delays_s.clear()
        (await it.open()).close()
        assert 0.45 < asyncio.get_running_loop().time() - began < 1.5  # the door's time limit is 0.5 s
        with pytest.raises(RequestTimedOut):
            await hung


async def test_a_kdc_that_hangs_is_not_waited_for_by_one_after_the_other() -> None:
    held = [Ticket() for _ in range(20)]
    waiting = iter(held)
    async with door(SaslPeer(), KERBEROS, make_exchange=lambda *_: next(waiting)) as it:
        (await it.open()).close()
        for ticket in held:
            ticket.answers.clear()
        began = asyncio.get_running_loop().time()
        opening = [asyncio.create_task(it.open()) for _ in held[1:]]
        await until(lambda: all(ticket.asked.is_set() for ticket in held), 5 * KDC_PATIENCE_S)
        assert asyncio.get_running_loop().time() - began >= KDC_PATIENCE_S
        assert await asyncio.to_thread(len, "other work") == 10  # its threads are no others
        for ticket in held:
            ticket.answers.set()
        for connection in await asyncio.gather(*opening):
            connection.close()


async def test_of_many_connections_none_waits_for_all_the_others() -> None:
    broker = SaslPeer(delays_s={ApiKey.SASL_AUTHENTICATE: 0.1})
    async with door(broker) as it:
        began = asyncio.get_running_loop().time()
        for connection in await asyncio.gather(*(it.open() for _ in range(20))):
            connection.close()
        assert asyncio.get_running_loop().time() - began < 1.5  # one by one it would take two
