"""How long an append without an answer may still be on its way.

Whoever takes a partition over from a holder that cannot be asked waits that long before it appends what the broker
cannot compare (docs/DESIGN.md, Leases): every such margin is derived here.
"""

from __future__ import annotations

from heliograph.cluster.properties import ClientProperties

# What the kernel was given before a lease ended must not arrive long after it. On a careful line at most this long. On
# others a broker may take no bytes for as long as it waits for followers or sits out a quota, and to break the line
# would only cost a resynchronisation: there it is the request timeout, for which a lost append is awaited anyway.
CAREFUL_UNACKNOWLEDGED_MS = 5000


def flight_s(producer: ClientProperties) -> float:
    """By the properties of the one who appends. The broker may be at it for as long as the request timeout; and the
    sender's kernel repeats what nobody has acknowledged, also while its process is frozen, until TCP_USER_TIMEOUT."""
    return max(producer.request_timeout_ms, CAREFUL_UNACKNOWLEDGED_MS) / 1000
