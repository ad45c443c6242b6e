"""What a failure of Kerberos means: from the library's numbers to an error that names who, where and the remedy.

Owns one table, by the numbers of MIT's krb5_err.et and gssapi_err_krb5.et. Pure: what is known of the attempt is an
argument. Must not know the library nor read a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from heliograph.cluster.security.settings import KerberosSettings
from heliograph.model.errors import AuthenticationFailed, SecurityFailed, SecurityUnusable

_KRB5 = -1765328384  # the first number of krb5_err.et
_GSS = 39756032  # the first number of gssapi_err_krb5.et
_MOST_OF_TEXT = 500  # part of it may come from a KDC


@dataclass(frozen=True, slots=True, kw_only=True)
class GssFailure:
    """`major`: what GSSAPI calls it. `minor`: what Kerberos calls it, by number. `text`: the library's
    own words, which name principals and realms."""

    major: int
    minor: int
    text: str


class Step(Enum):
    LOGIN = auto()  # tickets are got by keytab, or found in a cache
    TICKET = auto()  # a ticket for the broker is got by these
    BROKER = auto()  # the broker has answered


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosConfig:
    """Where the library reads krb5.conf. `missing`: those of `files` that cannot be read here."""

    files: tuple[str, ...]
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        missing = f", of which {' and '.join(self.missing)} cannot be read" if self.missing else ""
        return f"krb5.conf ({':'.join(self.files)}{missing})"


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosAttempt:
    """`host`: the broker's, as it is addressed. `machine`: where this runs."""

    settings: KerberosSettings
    host: str
    machine: str
    config: KerberosConfig

    @property
    def client(self) -> str:
        return self.settings.principal or "its principal"

    @property
    def realm(self) -> str:
        _, at, realm = self.settings.principal.rpartition("@")
        return f"realm {realm}" if at else "the default realm"

    @property
    def credentials(self) -> str:
        if self.settings.ticket_cache is None:
            return f"keytab {self.settings.keytab}"
        return f"ticket cache {self.settings.ticket_cache or 'of this user'}"

    @property
    def service(self) -> str:
        return f"{self.settings.service_name}/{self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meaning:
    """`error`: SecurityUnusable, something on this machine is wrong; AuthenticationFailed, the KDC refuses our key, and
    will again; SecurityFailed, it is mended elsewhere, and tried again. `message` and `hint` are templates of what
    `_names` has."""

    error: type[SecurityFailed]
    message: str
    hint: str


_KINIT = "kinit{of_cache} {principal} puts a ticket there, and klist{of_cache} shows what it holds"
_NO_TICKET = _Meaning(
    error=SecurityUnusable,
    message="{credentials} holds no usable ticket of {client} on {machine}",
    hint=_KINIT,
)
_EXPIRED = _Meaning(
    error=SecurityUnusable,
    message="the ticket in {credentials} on {machine} has expired",
    hint=_KINIT + "; with useKeyTab=true and keyTab in sasl.jaas.config Heliograph renews tickets by itself",
)
_UNKNOWN_CLIENT = _Meaning(
    error=AuthenticationFailed,
    message="the KDC of {realm} does not know {client} ({credentials})",
    hint="correct principal in sasl.jaas.config, or kadmin -q 'addprinc -randkey {principal}' and a new keytab",
)
_WRONG_KEY = _Meaning(
    error=AuthenticationFailed,
    message="the KDC of {realm} does not accept the key of {client} in {credentials}: the KDC has a newer key",
    hint="klist -kte {keytab} shows its keys; kadmin -q 'ktadd -k {keytab} {principal}' writes a new one "
    "(other keytabs of this principal stop working). New connections use it",
)
_DISABLED = _Meaning(
    error=AuthenticationFailed,
    message="the KDC of {realm} does not let {client} ({credentials}) log in: it is disabled, locked or expired",
    hint="kadmin -q 'getprinc {principal}' shows why",
)
_NO_COMMON_CIPHER = _Meaning(
    error=AuthenticationFailed,
    message="{client} ({credentials}), the KDC of {realm} and this machine have no encryption type in common",
    hint="klist -kte {keytab} shows the types in the keytab; permitted_enctypes in {config} must allow one of them",
)
_CLOCKS = _Meaning(
    error=SecurityFailed,
    message="the clocks of {machine}, of the KDC of {realm} and of broker {host} differ by more than Kerberos allows",
    hint="chronyc tracking, or timedatectl, on each of the three shows how far its clock is off; "
    "clockskew in {config} is what this machine allows, 300 s if it is not set",
)
_UNKNOWN_SERVICE = _Meaning(
    error=SecurityFailed,
    message="no KDC that {client} can ask knows the service {service} of broker {host}",
    hint="the name is made of sasl.kerberos.service.name and the host in the broker's advertised.listeners: kadmin -q "
    "'getprinc {service}' shows whether it is there. If the KDC was asked for another host, set "
    "dns_canonicalize_hostname = false and rdns = false under [libdefaults] in {config}; if in another realm, map "
    "{host} to the broker's realm under [domain_realm]",
)
_KDC_AWAY = _Meaning(
    error=SecurityFailed,
    message="no KDC of {realm} answers {machine}, which needs tickets of {client} for broker {host}",
    hint="check kdc under [realms] in {config}, and that its port (88, TCP and UDP) can be reached from {machine}",
)
_UNKNOWN_REALM = _Meaning(
    error=SecurityUnusable,
    message="{config} on {machine} names no KDC for {realm} of {client}",
    hint="add `REALM = {{ kdc = HOST }}` under [realms] there, or set KRB5_CONFIG to the files of all realms "
    "(/etc/a.conf:/etc/b.conf), on executors by `spark.conf: {{spark.executorEnv.KRB5_CONFIG: ...}}`",
)
_NO_DEFAULT_REALM = _Meaning(
    error=SecurityUnusable,
    message="{client} names no realm, and {config} on {machine} has no default_realm",
    hint="write principal in sasl.jaas.config with its realm: name@REALM",
)
_BAD_CONFIG = _Meaning(
    error=SecurityUnusable,
    message="{config} on {machine} cannot be used",
    hint="correct the file; KRB5_CONFIG says which ones are read, /etc/krb5.conf if it is not set",
)
_BAD_NAME = _Meaning(
    error=SecurityUnusable,
    message="{client} is not the name of a principal",
    hint="write principal in sasl.jaas.config as name@REALM or name/host@REALM",
)
_NOT_PROVEN = _Meaning(
    error=SecurityFailed,
    message="broker {host} does not prove that it is {service}",
    hint="compare the key version in the broker's keytab (klist -kt) with the KDC's (kvno {service})",
)
_REFUSED_BY_BROKER = (
    "the broker's log says why. As a rule the key of {service} is not the one in the broker's keytab (compare "
    "klist -kt there with kvno {service}), the broker's clock is off (chronyc tracking), or its rules for principals "
    "(sasl.kerberos.principal.to.local.rules) do not know {client}"
)
_OTHER = _Meaning(
    error=SecurityFailed,
    message="Kerberos fails for {client} ({credentials}) and broker {host} on {machine}",
    hint="KRB5_TRACE=/dev/stderr in the environment shows each of its steps; it reads {config}",
)
_MEANINGS: Mapping[int, _Meaning] = {
    _KRB5 + 1: _DISABLED,  # KRB5KDC_ERR_NAME_EXP
    _KRB5 + 6: _UNKNOWN_CLIENT,  # KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN
    _KRB5 + 7: _UNKNOWN_SERVICE,  # KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN
    _KRB5 + 14: _NO_COMMON_CIPHER,  # KRB5KDC_ERR_ETYPE_NOSUPP
    _KRB5 + 18: _DISABLED,  # KRB5KDC_ERR_CLIENT_REVOKED
    _KRB5 + 23: _DISABLED,  # KRB5KDC_ERR_KEY_EXP
    _KRB5 + 24: _WRONG_KEY,  # KRB5KDC_ERR_PREAUTH_FAILED
    _KRB5 + 29: _KDC_AWAY,  # KRB5KDC_ERR_SVC_UNAVAILABLE
    _KRB5 + 31: _WRONG_KEY,  # KRB5KRB_AP_ERR_BAD_INTEGRITY: a KDC that asked for no proof first
    _KRB5 + 32: _EXPIRED,  # KRB5KRB_AP_ERR_TKT_EXPIRED
    _KRB5 + 33: _CLOCKS,  # KRB5KRB_AP_ERR_TKT_NYV
    _KRB5 + 37: _CLOCKS,  # KRB5KRB_AP_ERR_SKEW
    _KRB5 + 133: _BAD_NAME,  # KRB5_PARSE_ILLCHAR
    _KRB5 + 134: _BAD_NAME,  # KRB5_PARSE_MALFORMED
    _KRB5 + 135: _BAD_CONFIG,  # KRB5_CONFIG_CANTOPEN
    _KRB5 + 136: _BAD_CONFIG,  # KRB5_CONFIG_BADFORMAT
    _KRB5 + 139: _NO_TICKET,  # KRB5_CC_BADNAME
    _KRB5 + 140: _NO_TICKET,  # KRB5_CC_UNKNOWN_TYPE
    _KRB5 + 141: _NO_TICKET,  # KRB5_CC_NOTFOUND
    _KRB5 + 148: _CLOCKS,  # KRB5_KDCREP_SKEW
    _KRB5 + 154: _UNKNOWN_REALM,  # KRB5_REALM_UNKNOWN
    _KRB5 + 156: _KDC_AWAY,  # KRB5_KDC_UNREACH
    _KRB5
    + 181: _NO_COMMON_CIPHER,  # KRB5_KT_NOTFOUND: that there is a key of this principal was checked before
    _KRB5 + 194: _NO_TICKET,  # KRB5_FCC_PERM
    _KRB5 + 195: _NO_TICKET,  # KRB5_FCC_NOFILE
    _KRB5 + 199: _NO_TICKET,  # KRB5_CC_FORMAT
    _KRB5 + 217: _UNKNOWN_SERVICE,  # KRB5_ERR_HOST_REALM_UNKNOWN
    _KRB5 + 220: _KDC_AWAY,  # KRB5_REALM_CANT_RESOLVE
    _KRB5 + 224: _NO_DEFAULT_REALM,  # KRB5_CONFIG_NODEFREALM
    _KRB5 + 236: _NO_COMMON_CIPHER,  # KRB5_NOPERM_ETYPE
    _KRB5 + 237: _NO_COMMON_CIPHER,  # KRB5_CONFIG_ETYPE_NOSUPP
    _KRB5 + 243: _UNKNOWN_SERVICE,  # KRB5_ERR_NUMERIC_REALM
    _GSS + 0: _NO_TICKET,  # KG_CCACHE_NOMATCH
    _GSS + 2: _NO_TICKET,  # KG_TGT_MISSING
    _GSS + 12: _NO_TICKET,  # KG_EMPTY_CCACHE
}
# A realm whose KDCs are found by DNS is unknown while DNS is away.
_AWAY = (_KDC_AWAY, _UNKNOWN_REALM)


def is_kdc_away(failure: GssFailure) -> bool:
    """Whether nobody has refused anything: tickets that are still good can be used meanwhile."""
    return _MEANINGS.get(failure.minor) in _AWAY


def explained(failure: GssFailure, step: Step, attempt: KerberosAttempt) -> SecurityFailed:
    meaning = _MEANINGS.get(failure.minor, _OTHER)
    if step is Step.BROKER and meaning is not _CLOCKS:
        meaning = _NOT_PROVEN
    names = _names(attempt)
    message = f"{meaning.message.format(**names)}: {failure.text[:_MOST_OF_TEXT]}"
    return meaning.error(message, hint=meaning.hint.format(**names))


def kdc_hangs(limit_s: float, attempt: KerberosAttempt) -> SecurityFailed:
    """Nothing has come from a KDC in so long, and the library still waits."""
    names = _names(attempt)
    words = f"{_KDC_AWAY.message.format(**names)}: no answer in {limit_s:.0f} s"
    return _KDC_AWAY.error(words, hint=_KDC_AWAY.hint.format(**names))


def refused_by_broker(words: str, attempt: KerberosAttempt) -> SecurityFailed:
    """Not AuthenticationFailed: brokers lock nobody out, and refuse a ticket also because their own key was changed.
    The next attempt comes with a new ticket."""
    names = _names(attempt)
    by = f"by {names['credentials']}, with a ticket for {names['service']}"
    return SecurityFailed(f"{words} ({by})", hint=_REFUSED_BY_BROKER.format(**names))


def _names(attempt: KerberosAttempt) -> dict[str, str]:
    settings = attempt.settings
    return {
        "client": attempt.client,
        "realm": attempt.realm,
        "credentials": attempt.credentials,
        "principal": settings.principal or "PRINCIPAL",
        "keytab": settings.keytab or "KEYTAB",
        "of_cache": f" -c {settings.ticket_cache}" if settings.ticket_cache else "",
        "service": attempt.service,
        "host": attempt.host,
        "machine": attempt.machine,
        "config": str(attempt.config),
    }
