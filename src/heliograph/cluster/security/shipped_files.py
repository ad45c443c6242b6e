"""Files that secure connections, on a machine that may have them elsewhere: Spark ships files to its executors.

Owns the rule: a path is meant as it is written; where nothing is there, a shipped file of the same name stands for it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from heliograph.cluster.security.settings import SaslSettings, Security, TlsSettings


def with_shipped_files(security: Security, directory: Path) -> Security:
    """`directory`: where what was shipped is."""
    tls, sasl = security.tls, security.sasl
    return replace(
        security,
        tls=_of_tls(tls, directory) if tls is not None else None,
        sasl=_of_sasl(sasl, directory) if sasl is not None else None,
    )


def _of_tls(tls: TlsSettings, directory: Path) -> TlsSettings:
    trust, identity = tls.trust, tls.identity
    return replace(
        tls,
        trust=replace(trust, location=_found(trust.location, directory)) if trust is not None else None,
        identity=replace(identity, location=_found(identity.location, directory))
        if identity is not None
        else None,
    )


def _of_sasl(sasl: SaslSettings, directory: Path) -> SaslSettings:
    kerberos = sasl.kerberos
    if kerberos is None:
        return sasl
    return replace(sasl, kerberos=replace(kerberos, keytab=_found(kerberos.keytab, directory)))


def _found(location: str, directory: Path) -> str:
    if not location or Path(location).exists():
        return location
    shipped = directory / Path(location).name
    return str(shipped) if shipped.is_file() else location
