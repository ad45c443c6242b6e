"""Which Kafka releases the lab can run, and what each of them needs to run on the Java of today.

Owns the differences between releases. Must not know processes, ports or downloads.

    0.8.2 ── 0.9 ── 0.10.0 ─── 0.10.1 ── 1.0 ── 1.1 ── 2.3 ─── 2.4 ── 3.2 ─── 3.3 ──▶
    └ Scala 2.11 ──────────┘   └ Scala 2.12 ───────────────┘   └ Scala 2.13 ───────▶
                               └ jaxb-api ─────┘
    └ ZooKeeper ────────────────────────────────────────────────────────────┘ └ KRaft
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from heliograph.model.errors import UsageError

KAFKA_GROUP = "org.apache.kafka"
JAXB = ("javax.xml.bind", "jaxb-api", "2.3.1")  # Java 11 took it out of the platform

Artifact = tuple[str, str, str]  # group, name, version
Number = tuple[int, ...]

_OLDEST: Number = (0, 8, 2)
_LISTENERS: Number = (0, 9)
_LISTS_BROKERS: Number = (0, 9)
_NULL_FOR_ALL_TOPICS: Number = (0, 10)
_SCALA_2_12: Number = (0, 10, 1)
_OWN_BASE64: Number = (1, 1)
_SCALA_2_13: Number = (2, 4)
_KRAFT: Number = (3, 3)  # the first whose KRaft mode was released for production


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    version: str
    number: Number

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The broker itself first."""
        scala = "2.13" if self.number >= _SCALA_2_13 else "2.12" if self.number >= _SCALA_2_12 else "2.11"
        broker = (KAFKA_GROUP, f"kafka_{scala}", self.version)
        return (broker, JAXB) if _SCALA_2_12 <= self.number < _OWN_BASE64 else (broker,)

    @property
    def needs_zookeeper(self) -> bool:
        return self.number < _KRAFT

    @property
    def has_listeners(self) -> bool:
        """Whether addresses are set by `listeners`; before, by `host.name` and `port`."""
        return self.number >= _LISTENERS

    @property
    def lists_brokers(self) -> bool:
        """Whether brokers of a cluster without topics know of each other; before, the first topic tells them."""
        return self.number >= _LISTS_BROKERS

    @property
    def metadata_version(self) -> int:
        """Of the request that every release around this one answers."""
        return 1 if self.number >= _NULL_FOR_ALL_TOPICS else 0


def release(version: str) -> Release:
    """By a number such as 4.3.1, or 0.10.2.2: up to 0.11 releases have four parts, from 1.0 on three."""
    number = tuple(map(int, version.split("."))) if re.fullmatch(r"\d+(\.\d+){2,3}", version) else ()
    parts = 4 if number[:1] == (0,) else 3
    if len(number) != parts or number < _OLDEST:
        raise UsageError(
            f"Kafka {version!r} is not a release the lab can run",
            hint="name a released version from 0.8.2.2 on, such as 4.3.1 or 0.10.2.2",
        )
    return Release(version=version, number=number)
