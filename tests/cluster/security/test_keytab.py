"""Keytabs: whose keys one holds, and what is said of one that cannot be used."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.security.keytab import NotAKeytab, check_keytab, principals_of
from heliograph.model.errors import SecurityUnusable

MAGIC = b"\x05\x02"


def counted(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def entry(realm: str, *components: str, key: bytes = b"k" * 32) -> bytes:
    """As kadmin writes it: names, name type, time, a short and a long key version, key type, key."""
    body = struct.pack(">H", len(components)) + b"".join(
        counted(each.encode()) for each in (realm, *components)
    )
    body += struct.pack(">IIB", 1, 1_700_000_000, 3) + struct.pack(">H", 18) + counted(key)
    body += struct.pack(">I", 3)
    return struct.pack(">i", len(body)) + body


def hole(size_bytes: int) -> bytes:
    return struct.pack(">i", -size_bytes) + b"\0" * size_bytes


def test_principals_are_named_once_each_and_as_kerberos_writes_them() -> None:
    content = MAGIC + entry("A.TEST", "mirror") + entry("A.TEST", "mirror", key=b"other") + hole(40)
    content += entry("A.TEST", "kafka", "broker.a.test") + entry("B.TEST", "with/slash@at\\")

    assert principals_of(content) == (
        "mirror@A.TEST",
        "kafka/broker.a.test@A.TEST",
        "with\\/slash\\@at\\\\@B.TEST",
    )


@given(
    st.lists(st.tuples(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=3)), max_size=5),
    st.data(),
)
def test_a_keytab_that_is_cut_off_anywhere_or_damaged_is_told_apart_and_never_breaks(
    names: Sequence[tuple[str, Sequence[str]]], data: st.DataObject
) -> None:
    content = bytearray(MAGIC + b"".join(entry(realm, *components) for realm, components in names))
    assert len(principals_of(bytes(content))) <= len(names)
    del content[data.draw(st.integers(0, len(content))) :]
    if content:
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(NotAKeytab):
        principals_of(bytes(content))


@pytest.mark.parametrize("principal", ["mirror@A.TEST", "mirror", ""])
def test_a_keytab_is_good_for_a_principal_whose_key_it_holds(principal: str) -> None:
    check_keytab(MAGIC + entry("A.TEST", "mirror"), "/k", principal)


@pytest.mark.parametrize("principal", ["other@A.TEST", "mirror@B.TEST", "mirro"])
def test_a_keytab_without_the_principal_is_told_with_what_it_holds(principal: str) -> None:
    content = MAGIC + entry("A.TEST", "mirror") + b"".join(entry("A.TEST", f"p{n}") for n in range(9))
    with pytest.raises(SecurityUnusable) as refused:
        check_keytab(content, "/etc/mirror.keytab", principal)
    assert refused.value.message == (
        f"keytab /etc/mirror.keytab holds no key of {principal}; "
        "it holds keys of mirror@A.TEST, p0@A.TEST, p1@A.TEST, p2@A.TEST, p3@A.TEST and others"
    )
    assert "klist -kt /etc/mirror.keytab" in refused.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a keytab: it is not in version 2 of the format"),
        (b"-----BEGIN CERTIFICATE", "is not a keytab: it is not in version 2 of the format"),
        (MAGIC + entry("A.TEST", "mirror")[:-1], "is not a keytab: its last entry is cut off"),
        (MAGIC + struct.pack(">iH", 2, 1), "is not a keytab: an entry of it is cut off or damaged"),
        (MAGIC, "holds no key"),
    ],
)
def test_a_file_that_is_no_keytab_is_named(content: bytes, said: str) -> None:
    with pytest.raises(SecurityUnusable) as refused:
        check_keytab(content, "/k", "mirror@A.TEST")
    assert refused.value.message.endswith(said)
    assert "kadmin -q 'ktadd -k /k PRINCIPAL'" in refused.value.hint
