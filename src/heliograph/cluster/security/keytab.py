"""What is in a keytab: whose keys it holds.

Owns the messages about one that cannot be used. It reads names and no key. Must not know files, tickets nor the
library, which says "No credentials cache found" of a keytab that is none, or somebody else's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from heliograph.model.errors import SecurityUnusable

_MAGIC = b"\x05\x02"
_MOST_NAMED = 5


class NotAKeytab(ValueError):
    pass


def check_keytab(content: bytes, path: str, principal: str) -> None:
    """`SecurityUnusable` unless it holds a key of `principal`, or any key if that is empty."""
    try:
        held = principals_of(content)
    except NotAKeytab as problem:
        raise SecurityUnusable(f"{path} is not a keytab: {problem}", hint=_remedy(path)) from problem
    if not held:
        raise SecurityUnusable(f"keytab {path} holds no key", hint=_remedy(path))
    # Which realm a name without one is in, krb5.conf says.
    if principal and not any(principal in (each, each.rpartition("@")[0]) for each in held):
        named = ", ".join(held[:_MOST_NAMED]) + (" and others" if len(held) > _MOST_NAMED else "")
        raise SecurityUnusable(
            f"keytab {path} holds no key of {principal}; it holds keys of {named}",
            hint=f"set principal in sasl.jaas.config to one of these, or {_remedy(path)}",
        )


def _remedy(path: str) -> str:
    return f"klist -kt {path} shows what it holds; kadmin -q 'ktadd -k {path} PRINCIPAL' writes a keytab"


def principals_of(content: bytes) -> tuple[str, ...]:
    """Each once, in the file's order, as Kerberos writes them: `name/instance@REALM`."""
    if content[:2] != _MAGIC:
        raise NotAKeytab("it is not in version 2 of the format")
    try:
        return tuple(dict.fromkeys(_principal(entry) for entry in _entries(content)))
    except (struct.error, UnicodeDecodeError):
        raise NotAKeytab("an entry of it is cut off or damaged") from None


def _entries(content: bytes) -> Iterator[bytes]:
    at = len(_MAGIC)
    while at < len(content):
        (size_bytes,) = struct.unpack_from(">i", content, at)
        at += 4
        if size_bytes > 0:  # below 0: a deleted entry was there
            if at + size_bytes > len(content):
                raise NotAKeytab("its last entry is cut off")
            yield content[at : at + size_bytes]
        at += abs(size_bytes)
        if size_bytes == 0:
            return


def _principal(entry: bytes) -> str:
    (components,) = struct.unpack_from(">H", entry, 0)
    at = 2
    names = []
    for _ in range(components + 1):  # the realm first
        (length,) = struct.unpack_from(">H", entry, at)
        (name,) = struct.unpack_from(f">{length}s", entry, at + 2)
        names.append(_escaped(name.decode()))
        at += 2 + length
    realm, *parts = names
    return f"{'/'.join(parts)}@{realm}"


def _escaped(name: str) -> str:
    for special in "\\/@":
        name = name.replace(special, f"\\{special}")
    return name
