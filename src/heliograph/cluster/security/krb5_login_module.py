"""Options of Java's Krb5LoginModule as typed settings.

Owns what each option means to a client, by the JDK's own documentation of the module, and which of them are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.cluster.security.settings import KerberosSettings

# With `true` they would have to do something; without, they ask for nothing.
_REFUSED_IF_TRUE = {
    "renewTGT": "tickets in a cache are renewed by whoever made them, for example k5start; or set useKeyTab=true",
    "useFirstPass": "there is only one login module, so no password can be shared",
    "tryFirstPass": "there is only one login module, so no password can be shared",
    "storePass": "there is only one login module, so no password can be shared",
    "clearPass": "there is only one login module, so no password can be shared",
}
# Whatever they say is so anyway: nobody is ever asked for a password, keys stay in the keytab, krb5.conf is read when
# credentials are got.
_WITHOUT_MEANING = ("storeKey", "doNotPrompt", "refreshKrb5Config", "debug")
_HONOURED = (
    "useKeyTab",
    "keyTab",
    "principal",
    "useTicketCache",
    "ticketCache",
    "serviceName",
    "isInitiator",
)
KNOWN_OPTIONS = (*_HONOURED, *_REFUSED_IF_TRUE, *_WITHOUT_MEANING)


def option_problems(options: Mapping[str, str]) -> list[str]:
    """What is wrong with them, each `option: what`; of options that the module has."""
    keytab, cache = _is_true(options, "useKeyTab"), _is_true(options, "useTicketCache")
    problems = [f"{name}: {why}" for name, why in _REFUSED_IF_TRUE.items() if _is_true(options, name)]
    if "isInitiator" in options and not _is_true(options, "isInitiator"):
        problems.append("isInitiator: a client begins the exchange: leave it out, or set it to true")
    if not keytab and not cache:
        problems.append("useKeyTab: set it to true, with keyTab and principal; or set useTicketCache=true")
    for name in ("keyTab", "principal") if keytab else ():
        if not options.get(name):
            problems.append(f"{name}: required with useKeyTab=true")
    if options.get("keyTab") and not keytab:
        problems.append("keyTab: has no effect without useKeyTab=true")
    if options.get("ticketCache") and not cache:
        problems.append("ticketCache: has no effect without useTicketCache=true")
    return problems


def kerberos_settings(options: Mapping[str, str], service_name: str) -> KerberosSettings:
    """Of options without problems. Java looks into the ticket cache first if both are there; the keytab proves the same
    principal, and does not expire."""
    principal = options.get("principal", "")
    if _is_true(options, "useKeyTab"):
        keytab = options["keyTab"].removeprefix("FILE:")
        return KerberosSettings(service_name=service_name, principal=principal, keytab=keytab)
    cache = options.get("ticketCache", "")
    return KerberosSettings(service_name=service_name, principal=principal, ticket_cache=cache)


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"
