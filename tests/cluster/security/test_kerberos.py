"""Authentication by Kerberos with real KDCs, and an acceptor in the place of a broker: it works for weeks, and what is
said when it does not."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from heliograph.cluster.security.kerberos import KerberosExchange
from heliograph.cluster.security.settings import KerberosSettings
from heliograph.model.errors import AuthenticationFailed, SecurityFailed, SecurityUnusable
from tests.support.kdc import Kdc, why_no_kdc, why_no_other_clock
from tests.support.kerberos_acceptor import INTEGRITY, NO_LAYER, Acceptor, Refused
from tests.support.kerberos_realm import Realm, Realms, authenticate

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_no_kdc()), reason=why_no_kdc())]

SHORT_LIFE_S = 4
KERBEROS_PAGE = Path(__file__).parents[3] / "docs" / "KERBEROS.md"


@pytest.fixture
def realms(tmp_path: Path) -> Iterator[Realms]:
    with Realms(tmp_path) as realms:
        yield realms


@pytest.fixture
def realm(realms: Realms) -> Realm:
    return realms.add("a")


def test_a_broker_and_a_mirror_prove_who_they_are(realm: Realm) -> None:
    assert realm.authenticate() == "mirror@A.TEST"
    assert realm.authenticate(replace(realm.settings, principal="mirror")) == "mirror@A.TEST"
    assert realm.authenticate(replace(realm.settings, principal="")) == "mirror@A.TEST"


def test_two_realms_are_authenticated_to_at_the_same_time_in_one_process(realms: Realms) -> None:
    both = (realms.add("a"), realms.add("b"))
    exchanges = [KerberosExchange(realm.settings, realm.host) for realm in both]
    tokens = [exchange.first() for exchange in exchanges]
    for realm, exchange, token in zip(both, exchanges, tokens, strict=True):
        with Acceptor(realm.broker_keytab) as broker:
            exchange.next(broker.accept(token))
            broker.take_choice(exchange.next(broker.offer()) or b"")
            assert exchange.next(b"") is None
            assert broker.client == f"mirror@{realm.kdc.realm}"
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(Realm.authenticate, both * 50))
    assert clients == ["mirror@A.TEST", "mirror@B.TEST"] * 50
    assert [realm.logins for realm in both] == [1, 1]


def test_the_krb5_conf_of_the_documentation_is_right_for_both_of_its_realms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documented = KERBEROS_PAGE.read_text().partition("```ini\n")[2].partition("```")[0]
    with Kdc("SF.EXAMPLE.COM", tmp_path / "sf") as sf, Kdc("NYC.EXAMPLE.COM", tmp_path / "nyc") as nyc:
        for kdc, domain in ((sf, "sf.example.com"), (nyc, "nyc.example.com")):
            assert f"kdc = kdc.{domain}\n" in documented
            documented = documented.replace(f"kdc.{domain}", kdc.address)
        config = tmp_path / "krb5.conf"
        config.write_text(documented)
        monkeypatch.setenv("KRB5_CONFIG", str(config))
        for kdc, host in ((sf, "kafka-1.sf.example.com"), (nyc, "kafka-1.nyc.example.com")):
            assert Realm(kdc, host).authenticate() == f"mirror@{kdc.realm}"


def test_a_host_that_krb5_conf_maps_to_no_realm_is_looked_for_in_the_clients_own(realms: Realms) -> None:
    for letter in "ab":
        realm = realms.add(letter, host="localhost")
        assert realm.authenticate() == f"mirror@{realm.kdc.realm}"


def test_authentication_goes_on_over_several_lifetimes_of_a_ticket(realms: Realms) -> None:
    realm = realms.add("a", ticket_life_s=SHORT_LIFE_S)
    end = time.monotonic() + 3 * SHORT_LIFE_S
    exchanges = 0
    while time.monotonic() < end:
        assert realm.authenticate() == "mirror@A.TEST"
        exchanges += 1
        time.sleep(0.1)
    # Twice in each of the three lifetimes, and not with every exchange.
    assert 5 <= realm.logins <= 8 < exchanges


def test_contexts_and_logins_leave_no_memory_behind(realm: Realm) -> None:
    def strain() -> None:
        for _ in range(500):
            realm.authenticate()
        for _ in range(500):  # each costs a login, because the exchange before was dropped half way
            KerberosExchange(realm.settings, realm.host).first()

    process = psutil.Process()
    gc.disable()  # what is dropped goes at once: it waits for no collector
    try:
        strain()
        before_bytes = process.memory_info().rss
        strain()
        grown_bytes = process.memory_info().rss - before_bytes
    finally:
        gc.enable()
    assert realm.logins >= 1_000
    assert grown_bytes < 512 << 10, f"{grown_bytes} bytes more after 1,000 more contexts"


def test_a_keytab_that_was_replaced_after_the_key_was_changed_is_used_at_once(realm: Realm) -> None:
    realm.authenticate()
    realm.kdc.rotate("mirror")
    realm.authenticate()  # by the ticket that is there
    realm.kdc.write_keytab("mirror.keytab", "mirror")
    realm.authenticate()
    realm.authenticate()
    assert realm.logins == 2


def test_a_broker_whose_key_was_changed_refuses_once(realm: Realm) -> None:
    realm.authenticate()
    realm.kdc.rotate(realm.service)
    realm.kdc.write_keytab("broker.keytab", realm.service)
    with pytest.raises(Refused):
        realm.authenticate()
    assert realm.authenticate() == "mirror@A.TEST"


def test_while_its_kdc_is_away_a_mirror_goes_on_with_good_tickets(realms: Realms) -> None:
    realm = realms.add("a", ticket_life_s=3 * SHORT_LIFE_S)
    realm.authenticate()
    realm.kdc.stop()
    time.sleep(2 * SHORT_LIFE_S)
    assert realm.authenticate() == "mirror@A.TEST"
    time.sleep(SHORT_LIFE_S)
    with pytest.raises(SecurityFailed, match="Cannot contact any KDC for realm 'A"):
        realm.authenticate()
    realm.kdc.start()
    assert realm.authenticate() == "mirror@A.TEST"


@pytest.mark.slow
def test_while_its_kdc_hangs_one_exchange_waits_for_it_and_the_others_do_not(realms: Realms) -> None:
    life_s = 160  # half of it, what a try takes, and 30 s before its end the library tries by itself
    realm = realms.add("a", ticket_life_s=life_s)
    realm.authenticate()
    with realm.kdc.hung():
        time.sleep(life_s / 2 + 1)
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(realm.authenticate)
            for _ in range(10):
                time.sleep(0.5)
                begun = time.monotonic()
                assert realm.authenticate() == "mirror@A.TEST"
                assert time.monotonic() - begun < 1
            assert not waits.done()
            assert waits.result(60) == "mirror@A.TEST"
        begun = time.monotonic()
        assert realm.authenticate() == "mirror@A.TEST"
        assert time.monotonic() - begun < 1


def test_a_ticket_cache_is_used_as_somebody_else_fills_it(
    realms: Realms, monkeypatch: pytest.MonkeyPatch
) -> None:
    realm = realms.add("a", ticket_life_s=SHORT_LIFE_S)
    cache = realm.kdc.write_ticket_cache("tickets", realm.keytab, "mirror")
    named = KerberosSettings(service_name="kafka", principal="mirror@A.TEST", ticket_cache=str(cache))
    default = KerberosSettings(service_name="kafka", ticket_cache="")
    assert realm.authenticate(named) == "mirror@A.TEST"
    with pytest.raises(SecurityUnusable, match=r"other@A\.TEST"):
        realm.authenticate(replace(named, principal="other@A.TEST"))
    with pytest.raises(SecurityUnusable, match="ticket cache of this user"):
        realm.authenticate(default)
    monkeypatch.setenv("KRB5CCNAME", str(cache))
    assert realm.authenticate(default) == "mirror@A.TEST"
    time.sleep(SHORT_LIFE_S + 1)
    with pytest.raises(SecurityUnusable, match="has expired") as over:
        realm.authenticate(named)
    assert f"kinit -c {cache} mirror@A.TEST" in over.value.hint
    realm.kdc.write_ticket_cache("tickets", realm.keytab, "mirror")
    assert realm.authenticate(named) == "mirror@A.TEST"


def test_an_exchange_may_be_called_by_another_thread_at_each_step(realm: Realm) -> None:
    exchange = KerberosExchange(realm.settings, realm.host)

    def elsewhere(call: Callable[..., bytes | None], *arguments: bytes) -> bytes | None:
        said: list[bytes | None] = []
        thread = threading.Thread(target=lambda: said.append(call(*arguments)))
        thread.start()
        thread.join()
        return said[0]

    with Acceptor(realm.broker_keytab) as broker:
        assert elsewhere(exchange.next, broker.accept(elsewhere(exchange.first) or b"")) == b""
        broker.take_choice(elsewhere(exchange.next, broker.offer()) or b"")
        assert elsewhere(exchange.next, b"") is None
        assert broker.client == "mirror@A.TEST"


def test_a_broker_that_demands_a_security_layer_is_refused(realm: Realm) -> None:
    exchange = KerberosExchange(realm.settings, realm.host)
    with pytest.raises(SecurityFailed, match=r"broker\.a\.test demands a security layer") as refused:
        authenticate(exchange, realm.broker_keytab, INTEGRITY)
    assert "SASL_SSL" in refused.value.hint
    both = KerberosExchange(realm.settings, realm.host)
    assert authenticate(both, realm.broker_keytab, INTEGRITY | NO_LAYER) == "mirror@A.TEST"


@pytest.mark.parametrize("token", [b"", b"\0", b"x" * 1000, b"\x60\x84\xff\xff\xff\xff" + b"\0" * 100])
def test_a_broker_that_answers_nonsense_has_proven_nothing(realm: Realm, token: bytes) -> None:
    at_once, later = (KerberosExchange(realm.settings, realm.host) for _ in range(2))
    at_once.first()
    with Acceptor(realm.broker_keytab) as broker:
        later.next(broker.accept(later.first()))
    for exchange in (at_once, later):
        with pytest.raises(SecurityFailed, match=r"does not prove that it is kafka/broker\.a\.test"):
            exchange.next(token)


def test_a_challenge_without_end_is_not_looked_at(realm: Realm) -> None:
    exchange = KerberosExchange(realm.settings, realm.host)
    exchange.first()
    with pytest.raises(SecurityFailed, match="a SASL challenge of 104857600 bytes"):
        exchange.next(bytes(100 << 20))


def refusal(realm: Realm, settings: KerberosSettings | None = None, host: str = "") -> SecurityFailed:
    with pytest.raises(SecurityFailed) as error:
        KerberosExchange(settings or realm.settings, host or realm.host).first()
    return error.value


def test_a_key_that_was_changed_at_the_kdc_is_refused(realm: Realm) -> None:
    realm.kdc.rotate("mirror")
    error = refusal(realm)
    assert type(error) is AuthenticationFailed
    assert f"does not accept the key of mirror@A.TEST in keytab {realm.keytab}" in error.message


def test_a_principal_that_the_kdc_does_not_know_is_refused(realm: Realm) -> None:
    realm.kdc.delete("mirror")
    error = refusal(realm)
    assert type(error) is AuthenticationFailed
    assert error.message.startswith(
        f"the KDC of realm A.TEST does not know mirror@A.TEST (keytab {realm.keytab})"
    )


def test_a_principal_that_is_disabled_is_refused(realm: Realm) -> None:
    realm.kdc.disable("mirror")
    error = refusal(realm)
    assert type(error) is AuthenticationFailed
    assert "disabled, locked or expired" in error.message


def test_a_broker_whose_service_is_unknown_is_named_as_it_was_addressed(realms: Realms) -> None:
    realms.add("a")
    realm = realms.add("b")  # the default realm is A.TEST
    error = refusal(realm, host="10.11.12.13")
    assert type(error) is SecurityFailed
    assert "the service kafka/10.11.12.13 of broker 10.11.12.13" in error.message
    error = refusal(realm, replace(realm.settings, service_name="kafak"))
    assert type(error) is SecurityFailed
    assert error.message.endswith("Server kafak/broker.b.test@B.TEST not found in Kerberos database")


def test_a_keytab_of_somebody_else_or_none_at_all_is_told(realm: Realm, tmp_path: Path) -> None:
    error = refusal(realm, replace(realm.settings, keytab=str(realm.broker_keytab)))
    assert type(error) is SecurityUnusable
    assert error.message.endswith(
        "holds no key of mirror@A.TEST; it holds keys of kafka/broker.a.test@A.TEST"
    )
    error = refusal(realm, replace(realm.settings, keytab=str(tmp_path / "none")))
    assert type(error) is SecurityUnusable
    assert "No such file or directory" in error.message


def test_a_kdc_that_is_away_is_told_with_its_realm_and_is_no_refusal(realm: Realm) -> None:
    realm.kdc.stop()
    error = refusal(realm)
    assert type(error) is SecurityFailed
    assert "no KDC of realm A.TEST answers" in error.message


def test_a_realm_that_krb5_conf_does_not_have_is_told_with_the_file(
    realms: Realms, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, realm = realms.add("a"), realms.add("b")
    monkeypatch.setenv("KRB5_CONFIG", str(other.kdc.krb5_conf))
    error = refusal(realm)
    assert type(error) is SecurityUnusable
    assert error.message.startswith(f"krb5.conf ({other.kdc.krb5_conf}) on ")
    monkeypatch.setenv("KRB5_CONFIG", "/nowhere/krb5.conf")
    error = refusal(realm)
    assert type(error) is SecurityUnusable
    assert "of which /nowhere/krb5.conf cannot be read" in error.message
    error = refusal(realm, replace(realm.settings, principal="mirror"))
    assert type(error) is SecurityUnusable


@pytest.mark.skipif(bool(why_no_other_clock()), reason=why_no_other_clock())
def test_clocks_that_differ_are_told(realms: Realms, monkeypatch: pytest.MonkeyPatch) -> None:
    realm = realms.add("a", clock="+1h")
    # By default the library takes the KDC's time for its own, and the broker is the one to complain.
    without_sync = realm.kdc.directory / "without_sync.conf"
    without_sync.write_text(realm.kdc.krb5_conf.read_text().replace(" rdns", " kdc_timesync = 0\n rdns"))
    monkeypatch.setenv("KRB5_CONFIG", str(without_sync))
    error = refusal(realm)
    assert type(error) is SecurityFailed
    assert error.message.endswith("differ by more than Kerberos allows: Clock skew too great")
