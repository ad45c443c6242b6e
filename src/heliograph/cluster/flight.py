"""How long an append without an answer may still be on its way.

Whoever takes a partition over from a holder that cannot be asked waits that long before it appends what the broker
cannot compare (docs/DESIGN.md, Leases): every such margin is derived here.
"""

from __future__ import annotations

from heliograph.cluster.connection import ACKNOWLEDGED_WITHIN_MS
from heliograph.cluster.properties import ClientProperties


def flight_s(producer: ClientProperties) -> float:
    """By the properties of the one who appends. The broker may be at it for as long as the request timeout; and the
    sender's kernel repeats what nobody has acknowledged, also while its process is frozen, until TCP_USER_TIMEOUT."""
    return max(producer.request_timeout_ms, ACKNOWLEDGED_WITHIN_MS) / 1000
