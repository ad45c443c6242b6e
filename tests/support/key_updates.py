"""New keys in the middle of a TLS 1.3 connection, as a server asks for them.

Python's ssl has no call for that, so OpenSSL's own is called, on the session inside of Python's object.
"""

from __future__ import annotations

import _ssl
import ctypes
import ssl

_ALSO_THEIRS, _OURS_ONLY = 1, 0  # SSL_KEY_UPDATE_REQUESTED, SSL_KEY_UPDATE_NOT_REQUESTED
_openssl = ctypes.CDLL(getattr(_ssl, "__file__", None))  # where it is linked in


def renew_keys(connection: ssl.SSLSocket, *, of_peer: bool = True) -> None:
    """Tell the peer that our keys are new ones from now on. `of_peer`: and that it must renew its own, and say so."""
    session = _session(connection)
    kind = _ALSO_THEIRS if of_peer else _OURS_ONLY
    if _openssl.SSL_key_update(session, kind) != 1 or _openssl.SSL_do_handshake(session) != 1:
        raise OSError("the keys cannot be renewed: the connection has ended")


def _session(connection: ssl.SSLSocket) -> ctypes.c_void_p:
    """The SSL* of it: the second field of the object that an SSLSocket has."""
    place = id(connection._sslobj) + object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)  # type: ignore[attr-defined]
    return ctypes.c_void_p.from_address(place)
