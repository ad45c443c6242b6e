"""Topics by their ids, as Produce and Fetch name them from version 13 on."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from heliograph.model.errors import ProtocolError
from heliograph.wire.reader import Reader

TOPIC_ID_BYTES = 16
NO_NAMES: Mapping[bytes, str] = {}
_TOPIC_ID = struct.Struct(f">{TOPIC_ID_BYTES}s")


def read_topic(reader: Reader, names: Mapping[bytes, str]) -> str:
    """The name of the topic whose id comes next; `names`: of all that were in the request."""
    (topic_id,) = reader.unpack(_TOPIC_ID)
    try:
        return names[topic_id]
    except KeyError:
        raise ProtocolError(
            f"an answer about a topic that was not in the request: id {topic_id.hex()}"
        ) from None
