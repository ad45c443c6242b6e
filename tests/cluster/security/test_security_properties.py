"""security.*, ssl.* and sasl.*: what is honoured is typed, the rest is refused with a reason, nothing is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.security.cipher_suites import TLS_1_3_SUITES
from heliograph.cluster.security.security_properties import (
    SECURITY_DEFAULTS,
    SECURITY_NAMES,
    missing_security,
    parse_security,
    security_problems,
)
from heliograph.cluster.security.settings import (
    NO_SECURITY,
    KerberosSettings,
    KeyStore,
    SaslMechanism,
    SaslSettings,
    Security,
    SecurityProtocol,
    StoreKind,
    TlsSettings,
    TrustStore,
)
from heliograph.model.errors import ConfigError

SSL = {"security.protocol": "SSL"}
SASL = {"security.protocol": "SASL_PLAINTEXT"}
KAFKA = "org.apache.kafka.common.security"
PLAIN_MODULE, SCRAM_MODULE = f"{KAFKA}.plain.PlainLoginModule", f"{KAFKA}.scram.ScramLoginModule"
KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SECRET = "hunter2"
LOGIN = f'required username="alice" password="{SECRET}";'
KEYTAB = 'useKeyTab=true keyTab="/etc/m.keytab" principal="m@EX.ORG"'


def sasl(mechanism: str, jaas: str, **properties: str) -> dict[str, str]:
    others = {name.replace("_", "."): value for name, value in properties.items()}
    return SASL | {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas} | others


def kerberos(options: str, **properties: str) -> dict[str, str]:
    return sasl("GSSAPI", f"{KRB5_MODULE} required {options};", **properties)


def test_without_properties_nothing_is_secured() -> None:
    assert parse_security({"bootstrap.servers": "a:1"}) == NO_SECURITY
    assert parse_security(SECURITY_DEFAULTS) == NO_SECURITY


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_the_case_of_a_protocol_does_not_matter(protocol: SecurityProtocol) -> None:
    assert security_problems({"security.protocol": protocol.lower()}) == []


def test_what_is_no_protocol_is_told() -> None:
    (problem,) = security_problems({"security.protocol": "TLS", "ssl.truststore.location": "x"})
    assert problem == "security.protocol: 'TLS' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"


# -- TLS


def test_tls_by_default_checks_hosts_with_the_systems_authorities() -> None:
    tls = TlsSettings(trust=None, identity=None, checks_host=True, protocols=("TLSv1.2", "TLSv1.3"))
    assert parse_security(SSL) == Security(protocol=SecurityProtocol.SSL, tls=tls)


def test_stores_are_files_with_their_passwords() -> None:
    stores = {
        "ssl.truststore.location": "/t.jks",
        "ssl.truststore.password": "a",
        "ssl.keystore.location": "/k.p12",
        "ssl.keystore.type": "pkcs12",
        "ssl.keystore.password": "b",
        "ssl.key.password": "c",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert parse_security(SSL | stores).tls == TlsSettings(
        trust=TrustStore(kind=StoreKind.JKS, location="/t.jks", password="a"),
        identity=KeyStore(kind=StoreKind.PKCS12, location="/k.p12", password="b", key_password="c"),
        checks_host=False,
    )


def test_pem_may_stand_in_the_properties_themselves() -> None:
    pem = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "ca",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "key",
        "ssl.keystore.certificate.chain": "chain",
        "ssl.key.password": "c",
    }
    assert parse_security(SSL | pem).tls == TlsSettings(
        trust=TrustStore(kind=StoreKind.PEM, pem="ca"),
        identity=KeyStore(kind=StoreKind.PEM, pem_key="key", pem_chain="chain", key_password="c"),
    )


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (
            {"ssl.truststore.type": "PEM"},
            "ssl.truststore.type: has no effect without ssl.truststore.location or",
        ),
        ({"ssl.truststore.password": SECRET}, "ssl.truststore.password: has no effect without"),
        ({"ssl.keystore.password": SECRET}, "ssl.keystore.password: has no effect without"),
        ({"ssl.key.password": SECRET}, "ssl.key.password: has no effect without ssl.keystore.location"),
        (
            {"ssl.truststore.certificates": SECRET},
            "ssl.truststore.certificates: needs ssl.truststore.type: PEM",
        ),
        (
            {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": SECRET,
                "ssl.truststore.location": "/t",
            },
            "ssl.truststore.location: ssl.truststore.certificates is set, too",
        ),
        (
            {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "/t",
                "ssl.truststore.password": SECRET,
            },
            "ssl.truststore.password: has no effect with ssl.truststore.type=PEM",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/k", "ssl.keystore.password": SECRET},
            "ssl.keystore.password: has no effect with ssl.keystore.type=PEM: set ssl.key.password",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": SECRET},
            "ssl.keystore.certificate.chain: required with ssl.keystore.key",
        ),
        (
            {"ssl.keystore.location": "/k.jceks", "ssl.keystore.type": "JCEKS"},
            "ssl.keystore.type: 'JCEKS' cannot be read, only PEM, PKCS12, JKS; convert the store: keytool"
            " -importkeystore -srckeystore /k.jceks -srcstoretype JCEKS -destkeystore /k.jceks.p12",
        ),
        (
            {"ssl.endpoint.identification.algorithm": "none"},
            "ssl.endpoint.identification.algorithm: 'none' is neither https nor empty",
        ),
        ({"ssl.protocol": "TLSv1.1"}, "ssl.protocol: 'TLSv1.1' is none of TLS, TLSv1.3, TLSv1.2"),
        (
            {"ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"},
            "ssl.enabled.protocols: only TLSv1.2 and TLSv1.3 are offered; write ssl.enabled.protocols: TLSv1.2",
        ),
        (
            {"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"},
            "ssl.enabled.protocols: ssl.protocol and ssl.cipher.suites leave no version of TLS",
        ),
        (
            {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": ",".join(TLS_1_3_SUITES)},
            "ssl.enabled.protocols: ssl.protocol and ssl.cipher.suites leave no version of TLS",
        ),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites: 'x' is no cipher suite"),
        ({"ssl.engine.factory.class": "x.Y"}, "ssl.engine.factory.class: not honoured: a Java class"),
        (
            {"ssl.truststor.location": "x"},
            "ssl.truststor.location: unknown property; did you mean ssl.truststore",
        ),
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism: has no effect with security.protocol=SSL"),
    ],
)
def test_tls_that_cannot_be_has_exactly_its_problem(properties: dict[str, str], problem: str) -> None:
    (found,) = security_problems(SSL | properties)
    assert found.startswith(problem)
    assert SECRET not in found


@pytest.mark.parametrize(
    ("properties", "protocols"),
    [
        ({"ssl.protocol": "TLSv1.2"}, ("TLSv1.2",)),
        ({"ssl.protocol": "TLS"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1.3",)),
        ({"ssl.enabled.protocols": "TLSv1.3, TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, ("TLSv1.2",)),
        ({"ssl.cipher.suites": ",".join(TLS_1_3_SUITES)}, ("TLSv1.3",)),
    ],
)
def test_only_protocols_that_every_property_leaves_are_offered(
    properties: dict[str, str], protocols: tuple[str, ...]
) -> None:
    tls = parse_security(SSL | properties).tls
    assert tls is not None
    assert tls.protocols == protocols


# -- SASL


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", PLAIN_MODULE), ("SCRAM-SHA-256", SCRAM_MODULE), ("SCRAM-SHA-512", SCRAM_MODULE)],
)
def test_a_password_is_read_from_the_mechanisms_login_module(mechanism: str, module: str) -> None:
    security = parse_security(sasl(mechanism, f"{module} {LOGIN}"))
    assert security.sasl == SaslSettings(
        mechanism=SaslMechanism(mechanism), username="alice", password=SECRET
    )
    assert security.tls is None


def test_kerberos_is_by_keytab_or_by_a_ticket_cache() -> None:
    by_keytab = KerberosSettings(service_name="kafka", principal="m@EX.ORG", keytab="/etc/m.keytab")
    usual = f"{KEYTAB} storeKey=true doNotPrompt=true debug=false isInitiator=true refreshKrb5Config=true"
    for options in (KEYTAB, usual, f"{KEYTAB} useTicketCache=true ticketCache=x"):
        security = parse_security(kerberos(options, sasl_kerberos_service_name="kafka"))
        assert security.sasl == SaslSettings(mechanism=SaslMechanism.GSSAPI, kerberos=by_keytab)
    for cache, options in (
        ("", "useTicketCache=TRUE"),
        ("/tmp/c", 'useTicketCache=true ticketCache="/tmp/c"'),
    ):
        found = parse_security(kerberos(f"{options} serviceName=kafka")).sasl
        assert found is not None
        assert found.kerberos == KerberosSettings(service_name="kafka", ticket_cache=cache)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("storeKey=true", "useKeyTab: set it to true"),
        ("useKeyTab=true principal=m", "keyTab: required with useKeyTab=true"),
        ("useKeyTab=true keyTab=m", "principal: required with useKeyTab=true"),
        ("useTicketCache=true keyTab=m", "keyTab: has no effect"),
        (f"{KEYTAB} ticketCache=c", "ticketCache: has no effect"),
        (f"{KEYTAB} isInitiator=false", "isInitiator: a client begins"),
        ("useTicketCache=true renewTGT=true", "renewTGT: tickets in a cache are renewed by"),
        (f"{KEYTAB} useFirstPass=true", "useFirstPass: there is only one login module"),
    ],
)
def test_options_of_krb5_that_cannot_be_have_exactly_their_problem(options: str, problem: str) -> None:
    (found,) = security_problems(kerberos(f"{options} serviceName=kafka"))
    assert found.startswith(f"sasl.jaas.config: Krb5LoginModule: {problem}")


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (
            sasl("SCRAM-SHA-512", f"{PLAIN_MODULE} {LOGIN}"),
            f"sasl.jaas.config: the login module of sasl.mechanism=SCRAM-SHA-512 is {SCRAM_MODULE}, not {PLAIN_MODULE}",
        ),
        (
            sasl("PLAIN", f"my.{SECRET} {LOGIN}"),
            "sasl.jaas.config: the login module of sasl.mechanism=PLAIN is",
        ),
        (
            sasl("PLAIN", f"{KAFKA}.oauthbearer.OAuthBearerLoginModule {LOGIN}"),
            "sasl.jaas.config: OAuthBearerLoginModule is not built yet",
        ),
        (sasl("OAUTHBEARER", f"{PLAIN_MODULE} {LOGIN}"), "sasl.mechanism: OAUTHBEARER is not built yet"),
        (
            sasl("plain", f"{PLAIN_MODULE} {LOGIN}"),
            "sasl.mechanism: 'plain' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI",
        ),
        (
            sasl("PLAIN", f"{PLAIN_MODULE} required username=a passwort={SECRET} password=x;"),
            "sasl.jaas.config: option 2 is not an option of PlainLoginModule; did you mean password?",
        ),
        (
            sasl("PLAIN", f"{PLAIN_MODULE} required password={SECRET};"),
            "sasl.jaas.config: PlainLoginModule has no username; for example sasl.jaas.config: 'org.apache",
        ),
        (
            sasl("PLAIN", f'{PLAIN_MODULE} required username=a password="{SECRET}\\0";'),
            "sasl.jaas.config: password of PlainLoginModule holds a zero byte",
        ),
        (
            sasl("SCRAM-SHA-256", f"{SCRAM_MODULE} required tokenauth=true username=a password={SECRET};"),
            "sasl.jaas.config: tokenauth of ScramLoginModule: delegation tokens",
        ),
        (
            sasl("PLAIN", f"{PLAIN_MODULE} {LOGIN[:-1]}"),
            "sasl.jaas.config: does not end with ;",
        ),
        (
            sasl("PLAIN", f"{PLAIN_MODULE} {LOGIN}", sasl_kerberos_service_name="kafka"),
            "sasl.kerberos.service.name: has no effect with sasl.mechanism=PLAIN",
        ),
        (
            kerberos(f"{KEYTAB} serviceName=a", sasl_kerberos_service_name="b"),
            "sasl.kerberos.service.name: serviceName in sasl.jaas.config has another value",
        ),
        (
            sasl("PLAIN", f"{PLAIN_MODULE} {LOGIN}", sasl_login_class=f"{KAFKA}.kerberos.KerberosLogin"),
            "sasl.login.class: a Java class cannot be loaded here; without it the behaviour is that of"
            f" {KAFKA}.authenticator.DefaultLogin",
        ),
        (
            sasl("PLAIN", f"{PLAIN_MODULE} {LOGIN}", sasl_kerberos_kinit_cmd="/opt/kinit"),
            "sasl.kerberos.kinit.cmd: not honoured: new tickets",
        ),
        (
            sasl("PLAIN", f"{PLAIN_MODULE} {LOGIN}", sasl_oauthbearer_token_endpoint_url="x"),
            "sasl.oauthbearer.token.endpoint.url: not honoured: OAUTHBEARER is not built yet",
        ),
        (
            sasl("PLAIN", f"{PLAIN_MODULE} {LOGIN}", ssl_truststore_location="/t"),
            "ssl.truststore.location: has no effect with security.protocol=SASL_PLAINTEXT",
        ),
    ],
)
def test_sasl_that_cannot_be_has_exactly_its_problem(properties: dict[str, str], problem: str) -> None:
    (found,) = security_problems(properties)
    assert found.startswith(problem)
    assert SECRET not in found


@pytest.mark.parametrize("mechanism", SaslMechanism)
def test_a_jaas_config_that_is_missing_is_told_with_one_to_paste(mechanism: SaslMechanism) -> None:
    (problem,) = missing_security(SASL | {"sasl.mechanism": mechanism})
    assert problem.startswith(
        f"sasl.jaas.config: required for sasl.mechanism={mechanism}: sasl.jaas.config: '"
    )
    jaas = problem.rpartition("sasl.jaas.config: ")[2].strip("'")
    service = {"sasl.kerberos.service.name": "kafka"} if mechanism is SaslMechanism.GSSAPI else {}
    assert parse_security(SASL | {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas} | service).sasl


def test_kerberos_is_the_mechanism_by_default_and_needs_the_brokers_service_name() -> None:
    (problem,) = missing_security(SASL)
    assert KRB5_MODULE in problem
    (problem,) = missing_security(kerberos(KEYTAB))
    assert problem.startswith("sasl.kerberos.service.name: required")
    with pytest.raises(ConfigError) as caught:
        parse_security(kerberos(KEYTAB))
    assert caught.value.problems == (problem,)


def test_classes_that_java_takes_anyway_are_accepted() -> None:
    usual = {
        "sasl.login.class": f"{KAFKA}.authenticator.DefaultLogin",
        "sasl.login.callback.handler.class": f"{KAFKA}.authenticator.AbstractLogin$DefaultLoginCallbackHandler",
        "sasl.client.callback.handler.class": f"{KAFKA}.authenticator.SaslClientCallbackHandler",
        "ssl.engine.factory.class": f"{KAFKA}.ssl.DefaultSslEngineFactory",
    }
    assert security_problems(sasl("PLAIN", f"{PLAIN_MODULE} {LOGIN}") | usual) == []


def test_all_problems_are_told_at_once() -> None:
    problems = security_problems(
        {
            "security.protocol": "SASL_SSL",
            "ssl.provider": "x",
            "ssl.protocol": "SSL",
            "ssl.key.password": SECRET,
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{PLAIN_MODULE} required {SECRET};",
        }
    )
    names = [problem.partition(":")[0] for problem in problems]
    assert names == ["ssl.provider", "ssl.key.password", "ssl.protocol", "sasl.jaas.config"]
    assert SECRET not in "".join(problems)


def test_of_each_property_the_default_asks_for_nothing() -> None:
    for protocol in SecurityProtocol:
        assert security_problems({**SECURITY_DEFAULTS, "security.protocol": protocol}) == []


JAAS = st.sampled_from([f"{module} {LOGIN}" for module in (PLAIN_MODULE, SCRAM_MODULE, KRB5_MODULE)])
OPEN_TEXTS = st.sampled_from(["", "PEM", "SASL_SSL", "SSL", "PLAIN", "SCRAM-SHA-256", "a,b", "TLSv1.2"])
OPEN_NAMES = [*SECURITY_NAMES, "ssl.provider", "sasl.x"]
SECRET_NAMES = ["ssl.truststore.password", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key"]


@given(
    st.dictionaries(st.sampled_from(OPEN_NAMES), OPEN_TEXTS),
    st.dictionaries(st.just("sasl.jaas.config"), JAAS),
    st.dictionaries(st.sampled_from(SECRET_NAMES), st.just(SECRET)),
)
def test_properties_become_security_or_problems_without_a_secret(
    properties: dict[str, str], jaas: dict[str, str], secrets: dict[str, str]
) -> None:
    everything = properties | jaas | secrets
    problems = [*security_problems(everything), *missing_security(everything)]
    assert SECRET not in "".join(problems)
    if not problems:
        security = parse_security(everything)
        assert (security.tls is not None) == security.protocol.encrypts
        assert (security.sasl is not None) == security.protocol.authenticates
        assert SECRET not in repr(security)


# -- texts of another encoding


@pytest.mark.parametrize(
    "properties",
    [
        sasl("PLAIN", f'{PLAIN_MODULE} required username="alice" password="{SECRET}\udcff";'),
        sasl("SCRAM-SHA-256", f'{SCRAM_MODULE} required username="\udcff" password="{SECRET}";'),
        kerberos(KEYTAB.replace("m@EX", "m\ud800@EX"), sasl_kerberos_service_name="kafka"),
        SSL | {"ssl.keystore.location": "x.p12", "ssl.keystore.password": f"{SECRET}\udcff"},
        SSL | {"ssl.keystore.location": "x.pem", "ssl.key.password": f"{SECRET}\udcff"},
    ],
)
def test_what_cannot_be_written_in_utf_8_is_refused_by_its_name_alone(properties: dict[str, str]) -> None:
    (problem,) = security_problems(properties)
    name, _, what = problem.partition(": ")
    assert "\\ud" in ascii(properties[name])
    assert what.startswith("is not UTF-8")
    assert SECRET not in problem
    assert problem.isascii()


def test_a_path_may_be_in_the_encoding_of_its_system() -> None:
    location = "/etc/\udcff.pem"
    trusted = parse_security(SSL | {"ssl.truststore.location": location}).tls
    assert trusted is not None
    assert trusted.trust is not None
    assert trusted.trust.location == location
