"""The system's GSSAPI, MIT's libgssapi_krb5, called by ctypes: Python values on our side, C on the other.

Owns the declarations of the C functions, and that all they give is given back. Must not know SASL, Kafka, nor what a
failure means to an operator (kerberos_failures.py). Why ctypes: docs/decisions/0013.

Threads: every function may be called by several at once, and ctypes lets others run meanwhile. One `GssContext`
belongs to one thread at a time, which need not be the same each time. What went wrong is kept by the library for each
thread: so it is read right after the call that failed. The library reads KRB5_CONFIG from the environment with every
call: nobody may change the environment while others are in here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import Any

from heliograph.cluster.security.kerberos_failures import GssFailure
from heliograph.model.errors import SecurityUnusable

GSSAPI_LIBRARY = "libgssapi_krb5.so.2"
KRB5_LIBRARY = "libkrb5.so.3"  # comes with the first one, which needs it

_ROUTINE_ERRORS = 0xFFFF0000  # the bits of a status by which a call has failed
_CONTINUE_NEEDED = 1
_INDEFINITE = 0xFFFFFFFF
_INITIATE = 1
_STATUS_OF_CALL = 1
_STATUS_OF_KERBEROS = 2
_MOST_SENTENCES = 8  # of one failure: the library says when there are no more
# The broker proves itself, too. No security layer is wanted, but RFC 4752 has the choice of it protected.
_MUTUAL_AND_INTEGRITY = 0x02 | 0x20


class _Oid(Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _OidSet(Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Given(Structure):
    """A buffer of ours, for the library to read. It keeps its bytes alive."""

    _fields_ = (("length", c_size_t), ("value", c_char_p))


class _Taken(Structure):
    """The same, filled by the library, and to be given back."""

    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _KeyValue(Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _KeyValueSet(Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_KeyValue)))


def _oid(der: str) -> _Oid:
    elements = bytes.fromhex(der)
    return _Oid(len(elements), elements)


_KERBEROS = _oid("2a864886f712010202")
_HOST_BASED_SERVICE = _oid("2a864886f71201020104")  # service@host
_PRINCIPAL = _oid("2a864886f71201020201")  # name/instance@REALM

_Minor = POINTER(c_uint32)
_Handle = POINTER(c_void_p)
_GSSAPI_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "gss_import_name": (_Minor, POINTER(_Given), POINTER(_Oid), _Handle),
    "gss_release_name": (_Minor, _Handle),
    "gss_acquire_cred_from": (
        *(_Minor, c_void_p, c_uint32, POINTER(_OidSet), c_int, POINTER(_KeyValueSet)),
        *(_Handle, c_void_p, POINTER(c_uint32)),
    ),
    "gss_release_cred": (_Minor, _Handle),
    "gss_init_sec_context": (
        *(_Minor, c_void_p, _Handle, c_void_p, POINTER(_Oid), c_uint32, c_uint32, c_void_p),
        *(POINTER(_Given), c_void_p, POINTER(_Taken), c_void_p, c_void_p),
    ),
    "gss_delete_sec_context": (_Minor, _Handle, c_void_p),
    "gss_wrap": (_Minor, c_void_p, c_int, c_uint32, POINTER(_Given), c_void_p, POINTER(_Taken)),
    "gss_unwrap": (_Minor, c_void_p, POINTER(_Given), POINTER(_Taken), c_void_p, c_void_p),
    "gss_display_status": (_Minor, c_uint32, c_int, POINTER(_Oid), POINTER(c_uint32), POINTER(_Taken)),
    "gss_release_buffer": (_Minor, POINTER(_Taken)),
}
_KRB5_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "krb5_init_context": (_Handle,),
    "krb5_cc_resolve": (c_void_p, c_char_p, _Handle),
    "krb5_cc_destroy": (c_void_p, c_void_p),
    "krb5_cc_close": (c_void_p, c_void_p),
    "krb5_cc_set_config": (c_void_p, c_void_p, c_void_p, c_char_p, c_void_p),
}


class GssFailed(Exception):
    """A call has failed. It never leaves this package: who calls makes an error of it that names the remedy."""

    def __init__(self, failure: GssFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class GssLibrary:
    """Use `gss_library`, which loads it once."""

    def __init__(self, gssapi: ctypes.CDLL, krb5: ctypes.CDLL) -> None:
        self._gssapi = _declared(gssapi, _GSSAPI_FUNCTIONS, c_uint32)
        self._krb5 = _declared(krb5, _KRB5_FUNCTIONS, c_int32)
        self._krb5_void = _declared(krb5, {"krb5_free_context": (c_void_p,)}, None)

    @contextmanager
    def service_name(self, service_at_host: str) -> Iterator[c_void_p]:
        with self._name(service_at_host, _HOST_BASED_SERVICE) as name:
            yield name

    @contextmanager
    def _name(self, text: str, kind: _Oid) -> Iterator[c_void_p]:
        handle = c_void_p()
        self._call("gss_import_name", byref(_given(text.encode())), byref(kind), byref(handle))
        try:
            yield handle
        finally:
            self._release("gss_release_name", byref(handle))

    @contextmanager
    def credentials(self, store: Mapping[str, str], principal: str) -> Iterator[tuple[c_void_p, int]]:
        """With the seconds that they last. `store` says where they are, by the library's own keys: `ccache`, a ticket
        cache, and `client_keytab`, by which tickets are got if there are none. That asks the KDC. An empty
        `principal` is the one that is found there."""
        handle, life_s = c_void_p(), c_uint32()
        pairs = [_KeyValue(key.encode(), value.encode()) for key, value in store.items()]
        where = _KeyValueSet(len(pairs), (_KeyValue * len(pairs))(*pairs))
        kerberos = _OidSet(1, ctypes.pointer(_KERBEROS))
        with self._name(principal, _PRINCIPAL) if principal else nullcontext() as name:
            self._call(
                "gss_acquire_cred_from",
                *(name, _INDEFINITE, byref(kerberos), _INITIATE, byref(where)),
                *(byref(handle), None, byref(life_s)),
            )
        try:
            yield handle, life_s.value
        finally:
            self._release("gss_release_cred", byref(handle))

    @contextmanager
    def context(self, credentials: c_void_p, target: c_void_p) -> Iterator[GssContext]:
        handle = c_void_p()
        try:
            yield GssContext(self._call, self._taken, handle, credentials, target)
        finally:
            if handle.value:
                self._release("gss_delete_sec_context", byref(handle), None)

    def destroy_ticket_cache(self, name: str) -> None:
        """A cache in memory outlives everything that refers to it. Nobody may use it any more."""
        # If krb5.conf is unreadable by now the tickets stay in memory, and nothing else is wrong with that.
        with suppress(GssFailed), self._ticket_cache(name) as (context, ticket_cache):
            self._krb5["krb5_cc_destroy"](context, ticket_cache)

    def leave_ticket_cache_alone(self, name: str) -> None:
        """Who uses tickets after half of their time is made to wait while the library tries to get new ones: with a
        keytab of its own choice, and for 30 s if the KDC hangs. Not so where the cache has no such entry."""
        with self._ticket_cache(name) as (context, ticket_cache):
            self._krb5["krb5_cc_set_config"](context, ticket_cache, None, b"refresh_time", None)
            self._krb5["krb5_cc_close"](context, ticket_cache)

    @contextmanager
    def _ticket_cache(self, name: str) -> Iterator[tuple[c_void_p, c_void_p]]:
        """To be closed or destroyed."""
        context, ticket_cache = c_void_p(), c_void_p()
        self._check_krb5("krb5_init_context", byref(context))
        try:
            self._check_krb5("krb5_cc_resolve", context, name.encode(), byref(ticket_cache))
            yield context, ticket_cache
        finally:
            self._krb5_void["krb5_free_context"](context)

    def _check_krb5(self, function: str, *arguments: object) -> None:
        code: int = self._krb5[function](*arguments)
        if code:
            raise GssFailed(GssFailure(major=0, minor=code, text=f"{function} has failed"))

    def _call(self, function: str, *arguments: object) -> int:
        minor = c_uint32()
        major: int = self._gssapi[function](byref(minor), *arguments)
        if major & _ROUTINE_ERRORS:
            raise GssFailed(self._failure(major, minor.value))
        return major

    def _release(self, function: str, *arguments: object) -> None:
        """Its status is of no use: there is nothing else to be done with a handle."""
        self._gssapi[function](byref(c_uint32()), *arguments)

    def _failure(self, major: int, minor: int) -> GssFailure:
        told = [*self._sentences(minor, _STATUS_OF_KERBEROS)] if minor else []
        text = "; ".join(told or self._sentences(major, _STATUS_OF_CALL))
        return GssFailure(major=major, minor=ctypes.c_int32(minor).value, text=text)

    def _sentences(self, status: int, kind: int) -> Iterator[str]:
        more, sentence = c_uint32(), _Taken()
        for _ in range(_MOST_SENTENCES):
            self._gssapi["gss_display_status"](
                byref(c_uint32()), status, kind, byref(_KERBEROS), byref(more), byref(sentence)
            )
            yield self._taken(sentence).decode(errors="replace")
            if not more.value:
                return

    def _taken(self, buffer: _Taken) -> bytes:
        """Its bytes; the buffer is given back."""
        try:
            return ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
        finally:
            self._release("gss_release_buffer", byref(buffer))


class GssContext:
    """A conversation with one service, in which both sides prove who they are."""

    def __init__(
        self,
        call: Callable[..., int],
        taken: Callable[[_Taken], bytes],
        handle: c_void_p,
        credentials: c_void_p,
        target: c_void_p,
    ) -> None:
        self.established = False
        self._call = call
        self._taken = taken
        self._handle = handle
        self._credentials = credentials
        self._target = target

    def step(self, token: bytes) -> bytes:
        """What to send next; the first step takes no token, and asks the KDC for a ticket if there is none yet."""
        answer = _Taken()
        try:
            major = self._call(
                "gss_init_sec_context",
                *(self._credentials, byref(self._handle), self._target, byref(_KERBEROS)),
                *(_MUTUAL_AND_INTEGRITY, 0, None, byref(_given(token)), None, byref(answer), None, None),
            )
        finally:
            said = self._taken(answer)
        self.established = not major & _CONTINUE_NEEDED
        return said

    def unwrap(self, sealed: bytes) -> bytes:
        content = _Taken()
        self._call("gss_unwrap", self._handle, byref(_given(sealed)), byref(content), None, None)
        return self._taken(content)

    def wrap(self, content: bytes) -> bytes:
        """Signed, and not encrypted."""
        sealed = _Taken()
        self._call("gss_wrap", self._handle, 0, 0, byref(_given(content)), None, byref(sealed))
        return self._taken(sealed)


@cache
def gss_library(gssapi: str = GSSAPI_LIBRARY, krb5: str = KRB5_LIBRARY) -> GssLibrary:
    """Loaded by the first who needs Kerberos, and only by such."""
    try:
        return GssLibrary(ctypes.CDLL(gssapi), ctypes.CDLL(krb5))
    except (OSError, AttributeError) as problem:
        raise SecurityUnusable(
            f"Kerberos (sasl.mechanism GSSAPI) needs MIT's library {gssapi}, which this machine cannot load: {problem}",
            hint="apt install libgssapi-krb5-2 (Debian, Ubuntu) or dnf install krb5-libs (Red Hat, Fedora), "
            "on the driver's machine and on every executor",
        ) from problem


def _declared(
    library: ctypes.CDLL, functions: Mapping[str, tuple[Any, ...]], status: type | None
) -> dict[str, Any]:
    """Without declarations ctypes passes every number as 32 bits, and half of a pointer is lost."""
    for name, arguments in functions.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = status
    return {name: getattr(library, name) for name in functions}


def _given(data: bytes) -> _Given:
    return _Given(len(data), data)
