"""The types of single values in heliograph.yaml, with their checks.

Owns how a value is spelled: patterns, names, sizes and counts. Every check is
of one value alone, so that pydantic can report all of them at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from heliograph.cluster.properties import HONOURED, OF_CLUSTER
from heliograph.controller.topic_config import COUNTED, NEEDED
from heliograph.model.settings import MIB
from heliograph.model.start import start_problem
from heliograph.model.topic_naming import legal_in_topic, naming_problem
from heliograph.model.topic_patterns import pattern_problem, split_patterns

PROPERTIES_FILE = "properties_file"  # a key of a cluster, among Kafka's
LANES = range(1, 1_000_000)
SOURCE = "source"  # as the source topic has it
REPLICATION_FACTORS = range(1, 32768)  # 16 bits with a sign, in Kafka's requests
LANE_MEMORY_BYTES = range(8 * MIB, 4096 * MIB + 1)

_SIZE = re.compile(r"(\d{1,12})\s*([KMG]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
# A look costs each cluster an answer with all of its topics; what is noticed later than in an hour is not followed.
INTERVAL_S = (0.5, 3600.0)
_DURATION = re.compile(r"(\d{1,9})\s*(ms|s|m|h)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS = {"": 1, "K": 1024, "M": MIB, "G": 1024 * MIB}


def _pattern(text: str) -> str:
    problem = pattern_problem(text)
    if problem:
        raise ValueError(problem)
    return text


def _pattern_list(value: Any) -> Any:
    return split_patterns(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class CommasOrList:
    """Annotation of a list that may also be written as one string with commas."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_pattern_list, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


def _naming(text: str) -> str:
    problem = naming_problem(text)
    if problem:
        raise ValueError(problem)
    return text


def _legal(text: str) -> str:
    if not legal_in_topic(text):
        raise ValueError(f"{text!r}: only letters, digits, '.', '_' and '-' are allowed")
    return text


def _start(text: str) -> str:
    problem = start_problem(text)
    if problem:
        raise ValueError(problem)
    return text


def _lanes(value: Any) -> int | None:
    if value == "auto":
        return None
    # So few digits that a number of any length is told and not computed.
    if re.fullmatch(r"[1-9]\d{0,6}", str(value), re.ASCII) is None or int(value) not in LANES:
        raise ValueError(f"{value!r} is neither auto nor a number from {LANES[0]} to {LANES[-1]}")
    return int(value)


def _replication_factor(value: Any) -> int | None:
    if value == SOURCE:
        return None
    if re.fullmatch(r"[1-9]\d{0,4}", str(value), re.ASCII) is None or int(value) not in REPLICATION_FACTORS:
        last = REPLICATION_FACTORS[-1]
        raise ValueError(f"{value!r} is neither {SOURCE} nor a number from 1 to {last}")
    return int(value)


def _size(value: Any) -> int:
    found = _SIZE.fullmatch(str(value))
    if found is None:
        raise ValueError(f"{value!r} is not a size like 64MB")
    size_bytes = int(found[1]) * _UNITS[found[2].upper()]
    if size_bytes not in LANE_MEMORY_BYTES:
        raise ValueError(f"{value!r} is not between 8MB and 4GB")
    return size_bytes


def _interval(value: Any) -> float:
    found = _DURATION.fullmatch(str(value))
    if found is None:
        raise ValueError(f"{value!r} is not a time like 5s, 500ms or 2m")
    seconds = int(found[1]) * _SECONDS[found[2]]
    if not INTERVAL_S[0] <= seconds <= INTERVAL_S[1]:
        raise ValueError(f"{value!r} is not between 500ms and 1h")
    return seconds


def _version(value: Any) -> int:
    if str(value) != "1":
        raise ValueError(f"{value!r} is not a version of this format; 1 is the only one")
    return 1


def _flag(value: Any) -> bool:
    """YAML's other words for it (yes, on) are refused: values are text as written, and a cluster may be called `no`."""
    if str(value).lower() not in ("true", "false"):
        raise ValueError(f"{value!r} is neither true nor false")
    return str(value).lower() == "true"


def _no_groups(value: Any) -> Any:
    if value:
        raise ValueError("mirroring consumer groups is not built yet")
    return []


Name = Annotated[str, AfterValidator(_legal), Field(min_length=1)]
Separator = Annotated[str, AfterValidator(_legal)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Patterns = Annotated[list[Pattern], CommasOrList()]
NoGroups = Annotated[list[str], BeforeValidator(_no_groups), WithJsonSchema({"type": "array", "maxItems": 0})]
Flag = Annotated[bool, BeforeValidator(_flag), WithJsonSchema({"type": "boolean"})]
# What a schema can say of it; that a time is one is checked when the file is read.
Start = Annotated[
    str,
    AfterValidator(_start),
    WithJsonSchema(
        {"type": "string", "pattern": r"^(earliest|latest|-[0-9]{1,6}[smhdw]|[0-9]{4}-?[0-9W].*)$"}
    ),
]
Naming = Annotated[str, AfterValidator(_naming)]
Lanes = Annotated[
    int | None,
    BeforeValidator(_lanes),
    WithJsonSchema(
        {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": LANES[0], "maximum": LANES[-1]}]}
    ),
]
ReplicationFactor = Annotated[
    int | None,
    BeforeValidator(_replication_factor),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": SOURCE},
                {"type": "integer", "minimum": 1, "maximum": REPLICATION_FACTORS[-1]},
            ]
        }
    ),
]
LaneMemory = Annotated[
    int, BeforeValidator(_size), WithJsonSchema({"type": "string", "pattern": "^[0-9]+ ?[KMG]?B$"})
]
Interval = Annotated[
    float, BeforeValidator(_interval), WithJsonSchema({"type": "string", "pattern": "^[0-9]+ ?(ms|s|m|h)$"})
]
Version = Annotated[int, BeforeValidator(_version), WithJsonSchema({"const": 1})]
_TEXT_SCHEMA = {"type": ["string", "number", "boolean"]}


def _properties_schema(*known: str) -> WithJsonSchema:
    """Editors offer the known ones. Others are named, too, where their value asks for nothing."""
    named = {"properties": dict.fromkeys(known, _TEXT_SCHEMA)} if known else {}
    return WithJsonSchema({"type": "object", **named, "additionalProperties": _TEXT_SCHEMA})


def _config_values(values: dict[str, str]) -> dict[str, str]:
    for name, value in values.items():
        if name in NEEDED:
            raise ValueError(
                f"{name}: the mirror sets it itself: every record keeps its offset and its time by it"
            )
        if name in COUNTED and re.fullmatch(r"[1-9]\d{0,9}", value, re.ASCII) is None:
            raise ValueError(f"{name}: {value!r} is not a number")
    return values


ConfigValues = Annotated[dict[str, str], AfterValidator(_config_values), _properties_schema()]
Properties = Annotated[dict[str, str], _properties_schema()]
LinkProperties = Annotated[
    dict[str, str], _properties_schema(*(name for name in HONOURED if name not in OF_CLUSTER))
]
ClusterProperties = Annotated[dict[str, str], _properties_schema(PROPERTIES_FILE, *HONOURED)]
