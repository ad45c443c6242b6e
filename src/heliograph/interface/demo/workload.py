"""The demo's topics, and what is in a record. Must not know how records are written (backlog.py, live.py)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

from kafka.admin import KafkaAdminClient, NewTopic

# Eight partitions: two lanes get four each, and so do the two processes that compare.
TOPICS: Mapping[str, int] = {"orders": 4, "payments": 2, "clicks": 2}
PARTITIONS = tuple((topic, partition) for topic, count in TOPICS.items() for partition in range(count))
HEADERS = (("by", b"demo"),)
_CITIES = ("Amsterdam", "Berlin", "Chicago", "Delhi", "Osaka", "Quito", "Tunis", "Zagreb")
_VALUE_BYTES = 478  # with key and framing a record takes 500 bytes of a batch


def create_topics(bootstrap_servers: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        admin.create_topics(
            [NewTopic(name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()]
        )
    finally:
        admin.close()


def value(number: str, chance: random.Random) -> bytes:
    """JSON, of one size for all numbers of as many digits."""
    order = {"id": number, "city": chance.choice(_CITIES), "cents": chance.randrange(100_000), "note": ""}
    missing = _VALUE_BYTES - len(json.dumps(order))
    order["note"] = chance.randbytes(missing).hex()[:missing]
    return json.dumps(order).encode()
