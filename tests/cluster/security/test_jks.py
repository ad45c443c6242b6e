"""JKS: stores that Java writes are read, and no damaged byte ends in anything but a typed error."""

from __future__ import annotations

import hashlib
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.security.jks import BadStore, JksStore, KeyEntry, WrongPassword, open_key, read_jks

passwords = st.text(min_size=1, max_size=12)
blobs = st.binary(max_size=60)


def sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()


def utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def der(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + b"\x82" + struct.pack(">H", len(content)) + content


def protected(key: bytes, password: str, salt: bytes = b"s" * 20) -> bytes:
    stream, link = b"", salt
    while len(stream) < len(key):
        link = sha1(utf16(password), link)
        stream += link
    hidden = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    sealed = salt + hidden + sha1(utf16(password), key)
    algorithm = der(0x30, bytes.fromhex("060a2b060104012a02110101") + b"\x05\x00")
    return der(0x30, algorithm + der(0x04, sealed))


def text(value: str) -> bytes:
    return struct.pack(">H", len(value.encode())) + value.encode()


def certificate(data: bytes) -> bytes:
    return text("X.509") + struct.pack(">I", len(data)) + data


def written(store: JksStore, password: str) -> bytes:
    entries = []
    for each in store.keys:
        chain = b"".join(map(certificate, each.chain))
        sealed = struct.pack(">I", len(each.protected)) + each.protected
        entries.append(struct.pack(">I", 1) + text(each.alias) + bytes(8) + sealed)
        entries[-1] += struct.pack(">I", len(each.chain)) + chain
    entries += [struct.pack(">I", 2) + text("ca") + bytes(8) + certificate(each) for each in store.trusted]
    body = bytes.fromhex("feedfeed00000002") + struct.pack(">I", len(entries)) + b"".join(entries)
    return body + sha1(utf16(password), b"Mighty Aphrodite", body)


def store_of(key: bytes, key_password: str, chain: list[bytes], trusted: list[bytes]) -> JksStore:
    entry = KeyEntry(alias="ä", protected=protected(key, key_password), chain=tuple(chain))
    return JksStore(keys=(entry,), trusted=tuple(trusted))


@given(blobs, passwords, passwords, st.lists(blobs, max_size=3), st.lists(blobs, max_size=3))
def test_a_store_is_read_as_it_was_written(
    key: bytes, password: str, key_password: str, chain: list[bytes], trusted: list[bytes]
) -> None:
    store = store_of(key, key_password, chain, trusted)
    read = read_jks(written(store, password), password)
    assert read == store
    assert open_key(read.keys[0], key_password) == key


@given(passwords, passwords)
def test_a_wrong_password_opens_nothing(right: str, wrong: str) -> None:
    store = store_of(b"key", right, [], [])
    if wrong == right:
        return
    with pytest.raises(WrongPassword):
        read_jks(written(store, right), wrong)
    with pytest.raises(WrongPassword):
        open_key(store.keys[0], wrong)


def test_without_a_password_a_store_is_not_checked() -> None:
    store = store_of(b"key", "p", [b"a"], [b"b", b"c"])
    assert read_jks(written(store, "p"), "") == store


SOUND = written(store_of(b"the key", "p", [b"own", b"above"], [b"ca"]), "p")


@given(st.data())
def test_a_damaged_store_is_told_and_nothing_else_happens(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(SOUND) - 1))
    damaged = bytearray(SOUND)
    damaged[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WrongPassword if at >= 8 else BadStore):
        read_jks(bytes(damaged), "p")
    with suppress(BadStore):  # unchecked, what is damaged may be a name
        for entry in read_jks(bytes(damaged), "").keys:
            assert open_key(entry, "p") == b"the key"


@given(st.integers(0, len(SOUND) - 1))
def test_a_store_that_is_cut_short_is_told(length: int) -> None:
    with pytest.raises(BadStore):
        read_jks(SOUND[:length], "")


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_no_bytes_end_in_anything_but_a_store_or_a_problem(data: bytes, key: bytes) -> None:
    with suppress(BadStore):
        read_jks(bytes.fromhex("feedfeed00000002") + data, "")
    with suppress(BadStore):
        open_key(KeyEntry(alias="", protected=key, chain=()), "p")


def test_no_key_is_in_a_repr() -> None:
    hidden = KeyEntry(alias="m", protected=b"hunter2", chain=())
    assert "hunter2" not in repr(hidden)
