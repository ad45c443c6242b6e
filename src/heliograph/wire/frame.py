"""What stands around every message: the size prefix and the request and response headers.

Owns: telling from the first four bytes that a peer does not speak Kafka. Must not know any message's body,
nor how the bytes travel.
"""

from __future__ import annotations

import struct

from heliograph.model.errors import ProtocolError
from heliograph.wire import writer
from heliograph.wire.reader import Reader

_SIZE = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">hhih")
_NULL_LENGTH = -1
# Every answer begins with its correlation id.
_SMALLEST_FRAME_BYTES = 4
_TLS_RECORD_TYPES = (0x15, 0x16)  # alert, handshake
_TLS_MAJOR_VERSION = 0x03
_TLS_LAST_MINOR_VERSION = 0x04


def encode_request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None, *, flexible: bool
) -> bytes:
    # The client id keeps its classic length in flexible headers too: a broker must be able to read it
    # before it knows whether it supports the version.
    name = b"" if client_id is None else client_id.encode("utf-8")
    length = _NULL_LENGTH if client_id is None else len(name)
    tail = writer.NO_TAGGED_FIELDS if flexible else b""
    return _REQUEST_HEADER.pack(api_key, version, correlation_id, length) + name + tail


def decode_response_header(body: memoryview, *, flexible: bool) -> tuple[int, memoryview]:
    """The correlation id and a view of what follows the header."""
    reader = Reader(body, flexible=flexible)
    correlation_id = reader.int32()
    reader.skip_tagged_fields()
    return correlation_id, reader.rest


def frame_size(prefix: bytes | bytearray | memoryview, limit: int) -> int:
    """The size of the answer that follows, from its four bytes; nothing that no answer could have."""
    if len(prefix) != _SIZE.size:
        raise ProtocolError(f"a size prefix of {len(prefix)} bytes instead of {_SIZE.size}")
    _refuse_other_protocols(bytes(prefix))
    (size_bytes,) = _SIZE.unpack(prefix)
    if size_bytes < _SMALLEST_FRAME_BYTES:
        raise ProtocolError(f"a frame cannot have {size_bytes} bytes")
    if size_bytes > limit:
        raise ProtocolError(f"a frame of {size_bytes} bytes is over the limit of {limit}")
    return int(size_bytes)


def _refuse_other_protocols(prefix: bytes) -> None:
    """Refused under any limit: as sizes these are 336 MiB and more, beyond every answer we ask for, and to
    wait for so many bytes would hide the mistake behind a timeout."""
    if prefix == b"HTTP":
        raise ProtocolError(
            "the peer speaks HTTP, not Kafka", hint="Check the host and port in bootstrap.servers."
        )
    if prefix.isascii() and prefix.decode().isprintable():
        raise ProtocolError(
            f"the peer answers in text ({prefix.decode()}...), not in Kafka's protocol: an HTTP server?",
            hint="Check the host and port in bootstrap.servers.",
        )
    is_tls_record = prefix[0] in _TLS_RECORD_TYPES and prefix[1] == _TLS_MAJOR_VERSION
    if is_tls_record and prefix[2] <= _TLS_LAST_MINOR_VERSION:
        raise ProtocolError(
            "the peer speaks TLS, not plaintext Kafka",
            hint="This listener needs security.protocol SSL or SASL_SSL; or choose a plaintext listener.",
        )
