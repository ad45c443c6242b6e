"""What is said of each failure of Kerberos: error, exit code, names and remedy, by the library's numbers."""

from __future__ import annotations

import pytest

from heliograph.cluster.security.kerberos_failures import (
    GssFailure,
    KerberosAttempt,
    KerberosConfig,
    Step,
    explained,
    is_kdc_away,
    refused_by_broker,
)
from heliograph.cluster.security.settings import KerberosSettings
from heliograph.model.errors import AuthenticationFailed, SecurityFailed, SecurityUnusable

KRB5 = -1765328384
GSS = 39756032
BY_KEYTAB = KerberosSettings(service_name="kafka", principal="mirror@A.TEST", keytab="/etc/mirror.keytab")
BY_CACHE = KerberosSettings(service_name="kafka", principal="mirror@A.TEST", ticket_cache="FILE:/tmp/tickets")
CONFIG = KerberosConfig(files=("/etc/krb5.conf",))


def meant(
    minor: int,
    *,
    step: Step = Step.LOGIN,
    settings: KerberosSettings = BY_KEYTAB,
    config: KerberosConfig = CONFIG,
    text: str = "the library's words",
) -> SecurityFailed:
    attempt = KerberosAttempt(settings=settings, host="broker.a.test", machine="worker-7", config=config)
    return explained(GssFailure(major=7 << 16, minor=minor, text=text), step, attempt)


def test_an_unknown_principal_is_told_with_realm_and_keytab() -> None:
    error = meant(KRB5 + 6)
    assert type(error) is AuthenticationFailed
    assert error.message == (
        "the KDC of realm A.TEST does not know mirror@A.TEST (keytab /etc/mirror.keytab): the library's words"
    )
    assert "kadmin -q 'addprinc -randkey mirror@A.TEST'" in error.hint


@pytest.mark.parametrize("number", [24, 31])
def test_a_key_that_was_changed_at_the_kdc_is_told_with_the_command_that_writes_a_new_keytab(
    number: int,
) -> None:
    error = meant(KRB5 + number)
    assert type(error) is AuthenticationFailed
    assert "does not accept the key of mirror@A.TEST in keytab /etc/mirror.keytab" in error.message
    assert "kadmin -q 'ktadd -k /etc/mirror.keytab mirror@A.TEST'" in error.hint


@pytest.mark.parametrize("number", [1, 18, 23])
def test_a_principal_that_may_log_in_no_more_is_not_tried_again(number: int) -> None:
    error = meant(KRB5 + number)
    assert type(error) is AuthenticationFailed
    assert "getprinc mirror@A.TEST" in error.hint


def test_a_kdc_that_does_not_answer_is_no_refusal() -> None:
    error = meant(KRB5 + 156, text="Cannot contact any KDC for realm 'A.TEST'")
    assert type(error) is SecurityFailed
    assert "no KDC of realm A.TEST answers worker-7" in error.message
    assert "krb5.conf (/etc/krb5.conf)" in error.hint


@pytest.mark.parametrize("number", [33, 37, 148])
@pytest.mark.parametrize("step", list(Step))
def test_clocks_that_differ_are_told_at_every_step_and_are_no_fault_of_the_key(
    number: int, step: Step
) -> None:
    error = meant(KRB5 + number, step=step)
    assert type(error) is SecurityFailed
    assert error.message.startswith(
        "the clocks of worker-7, of the KDC of realm A.TEST and of broker broker.a.test"
    )
    assert "clockskew" in error.hint
    assert "chronyc tracking" in error.hint


def test_an_unknown_service_is_told_with_how_its_name_is_made_and_what_dns_may_have_to_do_with_it() -> None:
    error = meant(
        KRB5 + 7, step=Step.TICKET, text="Server kafka/localhost@A.TEST not found in Kerberos database"
    )
    assert type(error) is SecurityFailed
    assert "the service kafka/broker.a.test of broker broker.a.test" in error.message
    assert error.message.endswith("Server kafka/localhost@A.TEST not found in Kerberos database")
    for word in ("sasl.kerberos.service.name", "advertised.listeners", "dns_canonicalize_hostname", "rdns"):
        assert word in error.hint
    assert "[domain_realm]" in error.hint


def test_a_realm_that_krb5_conf_does_not_name_is_told_with_the_files_that_are_missing() -> None:
    config = KerberosConfig(files=("/etc/a.conf", "/etc/b.conf"), missing=("/etc/b.conf",))
    error = meant(KRB5 + 154, config=config)
    assert type(error) is SecurityUnusable
    assert error.exit_code == 2
    assert error.message.startswith(
        "krb5.conf (/etc/a.conf:/etc/b.conf, of which /etc/b.conf cannot be read) on worker-7 "
        "names no KDC for realm A.TEST"
    )
    assert "spark.executorEnv.KRB5_CONFIG" in error.hint


def test_a_principal_without_a_realm_is_in_the_default_realm_and_told_if_there_is_none() -> None:
    settings = KerberosSettings(service_name="kafka", principal="mirror", keytab="/k")
    assert "the KDC of the default realm does not know mirror" in meant(KRB5 + 6, settings=settings).message
    error = meant(KRB5 + 224, settings=settings)
    assert type(error) is SecurityUnusable
    assert "mirror names no realm" in error.message


@pytest.mark.parametrize("minor", [KRB5 + 195, KRB5 + 141, GSS + 0, GSS + 12])
def test_a_ticket_cache_without_a_ticket_is_told_with_the_kinit_that_fills_it(minor: int) -> None:
    error = meant(minor, settings=BY_CACHE)
    assert type(error) is SecurityUnusable
    assert (
        "ticket cache FILE:/tmp/tickets holds no usable ticket of mirror@A.TEST on worker-7" in error.message
    )
    assert error.hint.startswith("kinit -c FILE:/tmp/tickets mirror@A.TEST ")


def test_the_default_ticket_cache_needs_no_name() -> None:
    error = meant(KRB5 + 195, settings=KerberosSettings(service_name="kafka", ticket_cache=""))
    assert error.message.startswith("ticket cache of this user holds no usable ticket")
    assert error.hint.startswith("kinit PRINCIPAL ")


def test_a_ticket_of_a_cache_that_is_over_is_told_with_what_renews_tickets() -> None:
    error = meant(KRB5 + 32, step=Step.TICKET, settings=BY_CACHE)
    assert type(error) is SecurityUnusable
    assert "useKeyTab=true" in error.hint


@pytest.mark.parametrize("minor", [KRB5 + 31, KRB5 + 46, GSS + 6, 0])
def test_what_a_broker_answers_wrongly_is_the_brokers_fault(minor: int) -> None:
    error = meant(minor, step=Step.BROKER)
    assert type(error) is SecurityFailed
    assert "broker broker.a.test does not prove that it is kafka/broker.a.test" in error.message


def test_a_broker_that_refuses_a_ticket_is_tried_again() -> None:
    attempt = KerberosAttempt(settings=BY_KEYTAB, host="broker.a.test", machine="worker-7", config=CONFIG)
    error = refused_by_broker("broker.a.test:9092 refuses 'mirror@A.TEST'", attempt)
    assert type(error) is SecurityFailed
    assert error.message == (
        "broker.a.test:9092 refuses 'mirror@A.TEST' "
        "(by keytab /etc/mirror.keytab, with a ticket for kafka/broker.a.test)"
    )
    assert "the broker's log says why" in error.hint


def test_a_failure_that_nobody_knows_is_told_whole_but_for_a_text_without_end() -> None:
    error = meant(12345, text="x" * 10_000)
    assert type(error) is SecurityFailed
    assert "mirror@A.TEST (keytab /etc/mirror.keytab)" in error.message
    assert len(error.message) < 1_000
    assert "KRB5_TRACE" in error.hint


@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("settings", [BY_KEYTAB, BY_CACHE])
def test_every_number_has_a_message_and_a_hint(settings: KerberosSettings, step: Step) -> None:
    for number in range(256):
        error = meant(KRB5 + number, step=step, settings=settings)
        assert error.hint
        assert "{" not in error.message


@pytest.mark.parametrize(
    ("number", "away"), [(156, True), (220, True), (29, True), (154, True), (24, False), (6, False)]
)
def test_a_kdc_is_away_when_nobody_has_refused_anything(number: int, away: bool) -> None:
    assert is_kdc_away(GssFailure(major=0, minor=KRB5 + number, text="")) is away
