"""The shape of heliograph.yaml, as pydantic models.

Owns keys, types and defaults of the file. Must not know more than one value at a time: what needs two
(unknown clusters, Kafka properties) is in checks.py. docs/CONFIG.md describes every key here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from heliograph.interface.config.built_choice import Only
from heliograph.interface.config.value_types import (
    SOURCE,
    ClusterProperties,
    CommasOrList,
    ConfigValues,
    Flag,
    Interval,
    LaneMemory,
    Lanes,
    LinkProperties,
    Name,
    Naming,
    NoGroups,
    Pattern,
    Patterns,
    Properties,
    ReplicationFactor,
    Separator,
    Start,
    Version,
)
from heliograph.model.settings import DEFAULT_DISCOVERY_S, DEFAULT_LANE_MEMORY_BYTES

# Keys that the format reserves; they become fields when they work.
RESERVED = frozenset({"listen"})
RESERVED_IN_LINKS: frozenset[str] = frozenset()

# How a link copies (model/policy.py). Only what is done today is accepted.
Offsets = Annotated[str, Only("identical", ("translated",))]
Isolation = Literal["read_committed", "read_uncommitted"]
OnLoss = Literal["stop", "continue"]
Oversize = Literal["stop", "skip"]
Timestamps = Literal["stop", "clamp"]
OnSourceDelete = Literal["keep", "delete"]
Forward = Annotated[str, Only("auto", ("local", "all"))]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicSection(_Section):
    """An entry of `topics` that differs from its link; what it does not say is as the link says."""

    match: Pattern
    start: Start | None = None
    isolation: Isolation | None = None
    on_loss: OnLoss | None = None
    oversize: Oversize | None = None
    timestamps: Timestamps | None = None
    on_source_delete: OnSourceDelete | None = None


# Steps that pydantic puts into the place of a problem and that stand in no file; shape.py takes them out again.
ENTRY, PATTERN = "[entry]", "[pattern]"
STEPS_OF_NO_FILE = frozenset({"[key]", ENTRY, PATTERN})


def _kind_of_entry(value: Any) -> str:
    return ENTRY if isinstance(value, dict | TopicSection) else PATTERN


# Which of the two an entry is can be seen from its shape, so a problem is told of that one alone.
TopicEntry = Annotated[
    Annotated[Pattern, Tag(PATTERN)] | Annotated[TopicSection, Tag(ENTRY)],
    Discriminator(_kind_of_entry),
]


class TopicConfigsSection(_Section):
    """Which configs target topics get, and whether they are kept in step with the source's."""

    sync: Flag = True
    include: Patterns = []
    exclude: Patterns = []
    set: ConfigValues = {}


class LinkSection(_Section):
    source: Name
    target: Name
    topics: Annotated[list[TopicEntry], CommasOrList()] = Field(min_length=1)
    exclude: Patterns = []
    naming: Naming = "same"
    separator: Separator = "."
    offsets: Offsets = "identical"
    start: Start = "earliest"
    isolation: Isolation = "read_committed"
    on_loss: OnLoss = "stop"
    oversize: Oversize = "stop"
    timestamps: Timestamps = "stop"
    on_source_delete: OnSourceDelete = "keep"
    forward: Forward = "auto"
    create_topics: Flag = True
    topic_configs: TopicConfigsSection = TopicConfigsSection()
    replication_factor: ReplicationFactor = Field(default=None, json_schema_extra={"default": SOURCE})
    groups: NoGroups = []
    consumer: LinkProperties = {}
    producer: LinkProperties = {}


class SparkSection(_Section):
    master: str = Field(default="local[*]", min_length=1)
    conf: Properties = {}
    python: str | None = Field(default=None, min_length=1)


class Document(_Section):
    """heliograph.yaml"""

    version: Version = 1
    clusters: dict[Name, ClusterProperties] = Field(min_length=1)
    links: dict[Name, LinkSection] = Field(min_length=1)
    lanes: Lanes = Field(default=None, json_schema_extra={"default": "auto"})
    lane_memory: LaneMemory = Field(default=DEFAULT_LANE_MEMORY_BYTES, json_schema_extra={"default": "64MB"})
    discovery_interval: Interval = Field(default=DEFAULT_DISCOVERY_S, json_schema_extra={"default": "5s"})
    spark: SparkSection = SparkSection()
