"""When a process logs in by keytab, and which exchange gets which tickets: the rules of keytab_logins.py, by no KDC."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from heliograph.cluster.security.gss_library import GssFailed
from heliograph.cluster.security.kerberos_failures import GssFailure
from heliograph.cluster.security.keytab_logins import AWAY_PAUSE_S, KeytabLogins, Loan
from heliograph.model.errors import SecurityUnusable

from .test_keytab import MAGIC, entry

LIFE_S = 36_000
WRONG_KEY = GssFailure(major=7 << 16, minor=-1765328384 + 24, text="Preauthentication failed")
KDC_AWAY = GssFailure(major=7 << 16, minor=-1765328384 + 156, text="Cannot contact any KDC")
MIRROR = "mirror@A.TEST"


class PlayedTickets:
    """A KDC that gives tickets, or `fails`; while `answers` is not set it takes its time."""

    def __init__(self) -> None:
        self.caches: list[str] = []
        self.logins = 0
        self.fails: GssFailure | None = None
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def log_in(self, *, keytab: str, principal: str, ticket_cache: str) -> int:
        assert keytab
        assert principal
        self.logins += 1
        self.asked.set()
        self.caches.append(ticket_cache)
        assert self.answers.wait(10)
        if self.fails is not None:
            raise GssFailed(self.fails)
        return LIFE_S

    def destroy(self, ticket_cache: str) -> None:
        self.caches.remove(ticket_cache)


class Scene:
    def __init__(self, directory: Path) -> None:
        self.time = 1_000_000.0
        self.tickets = PlayedTickets()
        self.logins = KeytabLogins(self.tickets, lambda: self.time)
        self.keytab = directory / "mirror.keytab"
        self.write_key(b"first")

    def write_key(self, key: bytes) -> None:
        self.keytab.write_bytes(MAGIC + entry("A.TEST", "mirror", key=key))

    def borrow(self) -> Loan:
        return self.logins.borrow(str(self.keytab), MIRROR)

    def authenticate(self, *, proven: bool = True) -> str:
        """One exchange; which cache it used."""
        loan = self.borrow()
        assert loan.ticket_cache in self.tickets.caches
        loan.proven = proven
        loan.give_back()
        return loan.ticket_cache


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_exchanges_share_a_login_until_half_of_its_time_is_over(scene: Scene) -> None:
    first = scene.authenticate()
    scene.time += LIFE_S / 2 - 1
    assert scene.authenticate() == first
    scene.time += 1
    second = scene.authenticate()
    assert second != first
    assert scene.tickets.logins == 2
    scene.authenticate()
    assert scene.tickets.caches == [second]


def test_weeks_leave_one_cache(scene: Scene) -> None:
    for _ in range(1_000):
        scene.time += LIFE_S / 5
        scene.authenticate()
    assert len(scene.tickets.caches) == 1
    assert scene.tickets.logins == pytest.approx(1_000 / 3, abs=2)


def test_the_tickets_of_an_exchange_stay_until_it_is_done_though_others_have_new_ones(scene: Scene) -> None:
    slow = scene.borrow()
    scene.time += LIFE_S
    new = scene.authenticate()
    assert scene.tickets.caches == [slow.ticket_cache, new]
    slow.proven = True
    slow.give_back()
    assert scene.authenticate() == new
    assert scene.tickets.caches == [new]


def test_a_keytab_that_was_replaced_is_used_at_once_though_the_old_tickets_are_good(scene: Scene) -> None:
    old = scene.authenticate()
    scene.write_key(b"second")
    new = scene.authenticate()
    assert new != old
    assert scene.authenticate() == new
    assert scene.tickets.caches == [new]


def test_a_new_keytab_that_does_not_work_shows_at_once_and_the_old_tickets_are_not_used(scene: Scene) -> None:
    scene.authenticate()
    scene.write_key(b"wrong")
    scene.tickets.fails = WRONG_KEY
    for _ in range(2):
        with pytest.raises(GssFailed, match="Preauthentication failed"):
            scene.authenticate()
    scene.tickets.fails = None
    scene.write_key(b"right")
    scene.authenticate()
    assert len(scene.tickets.caches) == 1


def test_a_new_keytab_without_the_principal_is_told_before_a_kdc_is_asked(scene: Scene) -> None:
    scene.authenticate()
    scene.keytab.write_bytes(MAGIC + entry("A.TEST", "somebody"))
    with pytest.raises(SecurityUnusable, match=r"holds keys of somebody@A\.TEST"):
        scene.authenticate()
    assert scene.tickets.logins == 1


def test_a_keytab_that_cannot_be_read_is_told_with_whose_it_is(scene: Scene) -> None:
    scene.authenticate()
    scene.keytab.unlink()
    with pytest.raises(SecurityUnusable) as refused:
        scene.authenticate()
    assert (
        refused.value.message
        == f"keytab of mirror@A.TEST: cannot read {scene.keytab}: No such file or directory"
    )
    assert refused.value.exit_code == 2
    assert refused.value.hint


def test_after_an_exchange_that_failed_the_next_one_has_new_tickets(scene: Scene) -> None:
    refused = scene.authenticate(proven=False)
    good = scene.authenticate()
    assert good != refused
    assert scene.authenticate() == good
    assert scene.tickets.caches == [good]


def test_an_exchange_that_failed_takes_no_tickets_from_another_one_that_is_under_way(scene: Scene) -> None:
    other = scene.borrow()
    assert scene.authenticate(proven=False) == other.ticket_cache
    scene.authenticate()
    assert other.ticket_cache in scene.tickets.caches


def test_while_no_kdc_answers_good_tickets_are_used_and_it_is_asked_now_and_then(scene: Scene) -> None:
    first = scene.authenticate()
    scene.tickets.fails = KDC_AWAY
    scene.time += LIFE_S / 2
    assert [scene.authenticate() for _ in range(5)] == [first] * 5
    assert scene.tickets.logins == 2
    scene.time += AWAY_PAUSE_S
    assert scene.authenticate() == first
    assert scene.tickets.logins == 3
    scene.tickets.fails = None
    scene.time += AWAY_PAUSE_S
    assert scene.authenticate() != first


def test_tickets_that_are_over_are_not_used_also_if_no_kdc_answers(scene: Scene) -> None:
    scene.authenticate()
    scene.time += LIFE_S
    scene.tickets.fails = KDC_AWAY
    for _ in range(2):
        with pytest.raises(GssFailed, match="Cannot contact any KDC"):
            scene.authenticate()
    assert scene.tickets.logins == 3


def test_a_key_that_is_refused_when_tickets_are_renewed_is_told_though_they_are_still_good(
    scene: Scene,
) -> None:
    scene.authenticate()
    scene.tickets.fails = WRONG_KEY
    scene.time += LIFE_S / 2
    with pytest.raises(GssFailed, match="Preauthentication failed"):
        scene.authenticate()


def waiting(scene: Scene, pool: ThreadPoolExecutor, count: int) -> list[Future[str]]:
    """So many exchanges of which one asks the KDC, and all others wait for it."""
    scene.tickets.answers.clear()
    scene.tickets.asked.clear()
    first = pool.submit(scene.authenticate)
    assert scene.tickets.asked.wait(10)
    begun = threading.Barrier(count, timeout=10)

    def other() -> str:
        begun.wait()
        return scene.authenticate()

    others = [pool.submit(other) for _ in range(count - 1)]
    begun.wait()
    return [first, *others]


def test_of_many_threads_one_logs_in_and_all_use_it(scene: Scene) -> None:
    with ThreadPoolExecutor(8) as pool:
        exchanges = waiting(scene, pool, 8)
        scene.tickets.answers.set()
        assert len({each.result(10) for each in exchanges}) == 1
    assert scene.tickets.logins == 1


def test_a_key_that_is_refused_is_shown_once_though_many_wait_for_it(scene: Scene) -> None:
    scene.tickets.fails = WRONG_KEY
    with ThreadPoolExecutor(8) as pool:
        exchanges = waiting(scene, pool, 8)
        threading.Event().wait(1)  # all have read the keytab by then, and stand at the lock
        scene.tickets.answers.set()
        for each in exchanges:
            with pytest.raises(GssFailed, match="Preauthentication failed"):
                each.result(10)
    assert scene.tickets.logins == 1
    assert not scene.tickets.caches


def test_while_one_renews_tickets_others_use_those_that_are_still_good(scene: Scene) -> None:
    old = scene.authenticate()
    scene.time += LIFE_S / 2
    scene.tickets.answers.clear()
    scene.tickets.asked.clear()
    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(scene.authenticate)
        assert scene.tickets.asked.wait(10)
        assert scene.authenticate() == old
        scene.tickets.answers.set()
        assert renewing.result(10) != old
    assert scene.tickets.logins == 2


def test_two_keytabs_do_not_wait_for_each_other(scene: Scene, tmp_path: Path) -> None:
    other = tmp_path / "other.keytab"
    other.write_bytes(scene.keytab.read_bytes())
    scene.authenticate()
    scene.tickets.answers.clear()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(scene.logins.borrow, str(other), MIRROR)
        assert scene.authenticate()
        scene.tickets.answers.set()
        slow.result(10)


def test_a_loan_may_be_given_back_in_the_middle_of_a_login_as_a_collector_does_it(scene: Scene) -> None:
    class Collecting(PlayedTickets):
        def log_in(self, *, keytab: str, principal: str, ticket_cache: str) -> int:
            if self.caches:
                loan.give_back()
            return super().log_in(keytab=keytab, principal=principal, ticket_cache=ticket_cache)

    tickets = Collecting()
    logins = KeytabLogins(tickets, lambda: scene.time)
    loan = logins.borrow(str(scene.keytab), MIRROR)
    scene.time += LIFE_S
    new = logins.borrow(str(scene.keytab), MIRROR)
    logins.borrow(str(scene.keytab), MIRROR)
    assert tickets.caches == [new.ticket_cache]
