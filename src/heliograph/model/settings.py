"""Everything a config file says, as frozen values.

Owns the shape the layers inward rely on. Must not know YAML, pydantic or where a value came from.
Properties may hold secrets, so they stay out of every repr.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.model.events import Event
from heliograph.model.link import Link

MIB = 1024 * 1024
DEFAULT_LANE_MEMORY_BYTES = 64 * MIB
DEFAULT_DISCOVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """`python` is the interpreter of the lanes; None is the one that runs the controller."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    python: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """Something in a config that works, and that an operator should know of."""

    code: Event
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`clusters` maps a cluster's name to its Kafka client properties; `lanes` None is auto.
    `discovery_interval_s`: how often clusters are looked at for topics that came, grew or went. `cautions`: what was
    found when they were read; whatever uses them tells it."""

    clusters: Mapping[str, Mapping[str, str]] = field(repr=False, hash=False)
    links: tuple[Link, ...]
    lanes: int | None = None
    lane_memory_bytes: int = DEFAULT_LANE_MEMORY_BYTES
    discovery_interval_s: float = DEFAULT_DISCOVERY_S
    spark: SparkSettings = field(default_factory=SparkSettings)
    cautions: tuple[Caution, ...] = ()

    def source_properties(self, link: Link) -> dict[str, str]:
        """Client properties for reading from the link's source."""
        return {**self.clusters[link.source], **link.consumer}

    def servers(self, link: Link) -> tuple[str, str]:
        """Where the link's source and its target are."""
        key = "bootstrap.servers"
        return self.source_properties(link).get(key, ""), self.target_properties(link).get(key, "")

    def target_properties(self, link: Link) -> dict[str, str]:
        """Client properties for writing to the link's target."""
        return {**self.clusters[link.target], **link.producer}
