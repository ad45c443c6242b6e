"""`sasl.*`: which mechanism, and who we are, from `sasl.jaas.config` and what goes with it.

Owns which login module belongs to which mechanism, and which classes mean the standard behaviour. Must not know whether
SASL is wanted (security_properties.py). Nothing of a login module's options is ever quoted: they hold passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from heliograph.cluster.security import krb5_login_module
from heliograph.cluster.security.jaas import JaasProblem, LoginModule, parse_jaas
from heliograph.cluster.security.settings import SaslMechanism, SaslSettings
from heliograph.cluster.security.tls_properties import Tell

SASL_DEFAULTS: Mapping[str, str] = {
    "sasl.mechanism": "GSSAPI",
    "sasl.jaas.config": "",
    "sasl.kerberos.service.name": "",
    "sasl.login.class": "",
    "sasl.login.callback.handler.class": "",
    "sasl.client.callback.handler.class": "",
}

_JAAS, _SERVICE = "sasl.jaas.config", "sasl.kerberos.service.name"
_KAFKA = "org.apache.kafka.common.security"
_PLAIN_MODULE = f"{_KAFKA}.plain.PlainLoginModule"
_SCRAM_MODULE = f"{_KAFKA}.scram.ScramLoginModule"
_KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_MODULES = {
    SaslMechanism.PLAIN: _PLAIN_MODULE,
    SaslMechanism.SCRAM_SHA_256: _SCRAM_MODULE,
    SaslMechanism.SCRAM_SHA_512: _SCRAM_MODULE,
    SaslMechanism.GSSAPI: _KRB5_MODULE,
}
_OAUTH_MODULE = "OAuthBearerLoginModule"
_PASSWORD_OPTIONS = {
    _PLAIN_MODULE: ("username", "password"),
    _SCRAM_MODULE: ("username", "password", "tokenauth"),
}


def read_sasl(values: Mapping[str, str], tell: Tell, lack: Tell) -> SaslSettings | None:
    """`values`: of every name in SASL_DEFAULTS. `tell(name, what is wrong)` is called for each problem, `lack` for what
    is not there and must be. Only after one of them are there no settings."""
    mechanism = _mechanism(values, tell)
    if mechanism is None:
        return None
    _check_classes(values, mechanism, tell)
    if mechanism is not SaslMechanism.GSSAPI and values[_SERVICE]:
        tell(_SERVICE, f"has no effect with sasl.mechanism={mechanism}")
    if not values[_JAAS]:
        lack(_JAAS, f"required for sasl.mechanism={mechanism}: {example_of(mechanism)}")
        return None
    module = _module(values, mechanism, tell)
    if module is None:
        return None
    if mechanism is SaslMechanism.GSSAPI:
        return _by_kerberos(values, module, tell, lack)
    return _by_password(mechanism, module, tell)


def example_of(mechanism: SaslMechanism) -> str:
    """A line for the config, complete but for what only the operator knows."""
    options = 'username="NAME" password="${file:/etc/heliograph/secrets.properties:password}"'
    if mechanism is SaslMechanism.GSSAPI:
        options = 'useKeyTab=true keyTab="/etc/heliograph/mirror.keytab" principal="mirror@EXAMPLE.ORG"'
    return f"sasl.jaas.config: '{_MODULES[mechanism]} required {options};'"


def _mechanism(values: Mapping[str, str], tell: Tell) -> SaslMechanism | None:
    name = "sasl.mechanism"
    if values[name] in tuple(SaslMechanism):
        return SaslMechanism(values[name])
    known = f"{values[name]!r} is none of {', '.join(SaslMechanism)}"
    tell(name, "OAUTHBEARER is not built yet" if values[name] == "OAUTHBEARER" else known)
    return None


def _check_classes(values: Mapping[str, str], mechanism: SaslMechanism, tell: Tell) -> None:
    """A class is as good as none if it is the one that Java would take anyway."""
    kerberos = mechanism is SaslMechanism.GSSAPI
    standard = {
        "sasl.login.class": "kerberos.KerberosLogin" if kerberos else "authenticator.DefaultLogin",
        "sasl.login.callback.handler.class": "authenticator.AbstractLogin$DefaultLoginCallbackHandler",
        "sasl.client.callback.handler.class": "kerberos.KerberosClientCallbackHandler"
        if kerberos
        else "authenticator.SaslClientCallbackHandler",
    }
    for name, usual in standard.items():
        if values[name] not in ("", f"{_KAFKA}.{usual}"):
            tell(
                name,
                f"a Java class cannot be loaded here; without it the behaviour is that of {_KAFKA}.{usual}",
            )


def _module(values: Mapping[str, str], mechanism: SaslMechanism, tell: Tell) -> LoginModule | None:
    try:
        module = parse_jaas(values[_JAAS])
    except JaasProblem as problem:
        tell(_JAAS, str(problem))
        return None
    if module.name == _MODULES[mechanism]:
        return module
    if module.name.endswith(_OAUTH_MODULE):
        tell(_JAAS, "OAuthBearerLoginModule is not built yet")
    else:
        # One that is none of ours is not quoted: the text may begin with anything.
        named = module.name if module.name in _MODULES.values() else "the one that is named here"
        tell(_JAAS, f"the login module of sasl.mechanism={mechanism} is {_MODULES[mechanism]}, not {named}")
    return None


def _by_password(mechanism: SaslMechanism, module: LoginModule, tell: Tell) -> SaslSettings:
    _check_known(module, _PASSWORD_OPTIONS[module.name], tell)
    for name in ("username", "password"):
        if not module.options.get(name):
            tell(_JAAS, f"{_short(module)} has no {name}; for example {example_of(mechanism)}")
        if "\0" in module.options.get(name, ""):
            tell(_JAAS, f"{name} of {_short(module)} holds a zero byte")
    if module.options.get("tokenauth", "").lower() == "true":
        tell(_JAAS, "tokenauth of ScramLoginModule: delegation tokens are not built yet")
    username, password = (module.options.get(name, "") for name in ("username", "password"))
    return SaslSettings(mechanism=mechanism, username=username, password=password)


def _by_kerberos(
    values: Mapping[str, str], module: LoginModule, tell: Tell, lack: Tell
) -> SaslSettings | None:
    _check_known(module, krb5_login_module.KNOWN_OPTIONS, tell)
    problems = krb5_login_module.option_problems(module.options)
    for problem in problems:
        tell(_JAAS, f"{_short(module)}: {problem}")
    in_jaas, by_property = module.options.get("serviceName", ""), values[_SERVICE]
    if in_jaas and by_property and in_jaas != by_property:
        tell(_SERVICE, "serviceName in sasl.jaas.config has another value: keep one of the two")
    service = in_jaas or by_property
    if not service:
        lack(_SERVICE, "required for sasl.mechanism=GSSAPI, most often sasl.kerberos.service.name: kafka")
    if problems or not service:
        return None
    kerberos = krb5_login_module.kerberos_settings(module.options, service)
    return SaslSettings(mechanism=SaslMechanism.GSSAPI, kerberos=kerberos)


def _check_known(module: LoginModule, known: tuple[str, ...], tell: Tell) -> None:
    for number, option in enumerate(module.options, start=1):
        if option not in known:
            close = get_close_matches(option, known, n=1)
            meant = f"; did you mean {close[0]}?" if close else f"; its options are {', '.join(known)}"
            tell(_JAAS, f"option {number} is not an option of {_short(module)}{meant}")


def _short(module: LoginModule) -> str:
    return module.name.rpartition(".")[2]
