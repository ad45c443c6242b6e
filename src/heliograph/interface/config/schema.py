"""The shape of heliograph.yaml, as pydantic models.

Owns keys, types and defaults of the file. Must not know more than one value at a time: what needs two
(unknown clusters, Kafka properties) is in checks.py. docs/CONFIG.md describes every key here.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from heliograph.interface.config.built_choice import Only
from heliograph.interface.config.value_types import (
    LaneMemory,
    Lanes,
    Name,
    Naming,
    NoGroups,
    Patterns,
    Properties,
    Separator,
    Version,
)
from heliograph.model.settings import DEFAULT_LANE_MEMORY_BYTES

# Keys that the format reserves; they become fields when they work.
RESERVED = frozenset({"discovery_interval", "listen"})


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LinkSection(_Section):
    source: Name
    target: Name
    topics: Patterns = Field(min_length=1)
    exclude: Patterns = []
    naming: Naming = "same"
    separator: Separator = "."
    offsets: Annotated[str, Only("identical", ("translated",))] = "identical"
    start: Annotated[str, Only("earliest")] = "earliest"
    isolation: Annotated[str, Only("read_committed", ("read_uncommitted",))] = "read_committed"
    on_loss: Annotated[str, Only("stop", ("continue",))] = "stop"
    oversize: Annotated[str, Only("stop", ("skip",))] = "stop"
    timestamps: Annotated[str, Only("stop", ("clamp",))] = "stop"
    forward: Annotated[str, Only("auto", ("local", "all"))] = "auto"
    groups: NoGroups = []
    consumer: Properties = {}
    producer: Properties = {}


class SparkSection(_Section):
    master: str = Field(default="local[*]", min_length=1)
    conf: Properties = {}
    python: str | None = Field(default=None, min_length=1)


class Document(_Section):
    """heliograph.yaml"""

    version: Version = 1
    clusters: dict[Name, Properties] = Field(min_length=1)
    links: dict[Name, LinkSection] = Field(min_length=1)
    lanes: Lanes = Field(default=None, json_schema_extra={"default": "auto"})
    lane_memory: LaneMemory = Field(default=DEFAULT_LANE_MEMORY_BYTES, json_schema_extra={"default": "64MB"})
    spark: SparkSection = SparkSection()
