"""The broker's side of SASL GSSAPI, without a broker: real tokens against a real keytab, and any choice of layers.

Owns one authentication as a server. By ctypes, and by no line of the client's: it is also a judge of that.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ACCEPT = 2
CONTINUE_NEEDED = 1
FAILED = 0xFFFF0000
NO_LAYER, INTEGRITY = 1, 2


class Given(Structure):
    _fields_ = (("length", c_size_t), ("value", c_char_p))


class Taken(Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class Pair(Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class Pairs(Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(Pair)))


_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "gss_acquire_cred_from": (
        *(c_void_p, c_uint32, c_void_p, c_int, POINTER(Pairs)),
        *(POINTER(c_void_p), c_void_p, c_void_p),
    ),
    "gss_accept_sec_context": (
        *(POINTER(c_void_p), c_void_p, POINTER(Given), c_void_p, POINTER(c_void_p)),
        *(c_void_p, POINTER(Taken), c_void_p, c_void_p, c_void_p),
    ),
    "gss_display_name": (c_void_p, POINTER(Taken), c_void_p),
    "gss_wrap": (c_void_p, c_int, c_uint32, POINTER(Given), c_void_p, POINTER(Taken)),
    "gss_unwrap": (c_void_p, POINTER(Given), POINTER(Taken), c_void_p, c_void_p),
    "gss_release_buffer": (POINTER(Taken),),
    "gss_release_name": (POINTER(c_void_p),),
    "gss_release_cred": (POINTER(c_void_p),),
    "gss_delete_sec_context": (POINTER(c_void_p), c_void_p),
}


@cache
def library() -> ctypes.CDLL:
    loaded = ctypes.CDLL("libgssapi_krb5.so.2")
    for name, arguments in _ARGUMENTS.items():
        function = getattr(loaded, name)
        function.argtypes = (POINTER(c_uint32), *arguments)
        function.restype = c_uint32
    return loaded


class Refused(Exception):
    """The client's token is not good for this service."""


class Acceptor:
    """`layers`: the security layers that are offered. Afterwards `client` is who has authenticated."""

    def __init__(self, keytab: Path, *, layers: int = NO_LAYER) -> None:
        self.client = ""
        self._keytab = keytab
        self._layers = layers
        self._credentials, self._context, self._name = c_void_p(), c_void_p(), c_void_p()

    def __enter__(self) -> Self:
        # Replays are of no interest here, and would be kept in a file of the whole machine.
        pairs = (Pair * 2)(Pair(b"keytab", str(self._keytab).encode()), Pair(b"rcache", b"none:"))
        store = Pairs(2, pairs)
        self._call(
            "gss_acquire_cred_from",
            *(None, 0xFFFFFFFF, None, ACCEPT, byref(store), byref(self._credentials), None, None),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._context.value:
            self._call("gss_delete_sec_context", byref(self._context), None)
        if self._name.value:
            self._call("gss_release_name", byref(self._name))
        self._call("gss_release_cred", byref(self._credentials))

    def accept(self, token: bytes) -> bytes:
        """The answer to the client's first token."""
        answer = Taken()
        major = self._call(
            "gss_accept_sec_context",
            *(byref(self._context), self._credentials, byref(_given(token)), None, byref(self._name)),
            *(None, byref(answer), None, None, None),
        )
        assert not major & CONTINUE_NEEDED
        return self._taken(answer)

    def offer(self) -> bytes:
        sealed = Taken()
        offered = _given(bytes((self._layers, 0, 0, 0)))
        self._call("gss_wrap", self._context, 0, 0, byref(offered), None, byref(sealed))
        return self._taken(sealed)

    def take_choice(self, sealed: bytes) -> bytes:
        """What the client has chosen; from now on it is authenticated."""
        content, name = Taken(), Taken()
        self._call("gss_unwrap", self._context, byref(_given(sealed)), byref(content), None, None)
        self._call("gss_display_name", self._name, byref(name), None)
        self.client = self._taken(name).decode()
        return self._taken(content)

    def _call(self, function: str, *arguments: object) -> int:
        minor = c_uint32()
        major: int = getattr(library(), function)(byref(minor), *arguments)
        if major & FAILED:
            raise Refused(f"{function}: {major:#x}, {ctypes.c_int32(minor.value).value}")
        return major

    def _taken(self, buffer: Taken) -> bytes:
        content = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
        self._call("gss_release_buffer", byref(buffer))
        return content


def _given(data: bytes) -> Given:
    return Given(len(data), data)
