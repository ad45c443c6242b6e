"""Why a cluster does not let a client of librdkafka in.

Owns the wait for its first error. Must not know listeners.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, Producer

from .client_access import Access

WAIT_S = 20.0


def refusal(access: Access) -> Any:
    """The first error that says why (a KafkaError)."""
    errors: list[Any] = []
    # A broker that cannot be spoken to is also told as one that is down, which says nothing.
    settings = {**access.librdkafka, "error_cb": errors.append, "log_level": 0}
    client: Any = Producer({**settings, "bootstrap.servers": access.bootstrap_servers})
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        client.poll(0.1)
        for error in errors:
            if error.code() != KafkaError._ALL_BROKERS_DOWN:
                return error
    raise TimeoutError(f"{access.bootstrap_servers} refuses nothing in {WAIT_S:.0f} s")
