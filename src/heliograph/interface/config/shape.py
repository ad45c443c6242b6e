"""Pydantic's errors as our problems: same places, our words, secrets masked."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from heliograph.interface.config.problems import Place, Problem, did_you_mean
from heliograph.interface.config.schema import (
    RESERVED,
    RESERVED_IN_LINKS,
    STEPS_OF_NO_FILE,
    Document,
    LinkSection,
    SparkSection,
    TopicConfigsSection,
    TopicSection,
)
from heliograph.model.secrets import MASK, is_secret

_EXPECTED = {
    "missing": "required",
    "string_type": "expected text",
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping",
    "list_type": "expected a list",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}
_WITHOUT_VALUE = {"missing", "too_short", "string_too_short"}


_IN_LINKS: dict[str | int, type[BaseModel]] = {"topics": TopicSection, "topic_configs": TopicConfigsSection}


def check_shape(tree: dict[str, Any]) -> tuple[Document | None, list[Problem]]:
    try:
        return Document.model_validate(tree), []
    except ValidationError as error:
        return None, [_problem(details) for details in error.errors()]


def _problem(details: ErrorDetails) -> Problem:
    place = tuple(step for step in details["loc"] if step not in STEPS_OF_NO_FILE)
    kind = details["type"]
    if kind == "extra_forbidden":
        return Problem(place, _unknown_key(place))
    if kind == "value_error":
        return Problem(place, details["msg"].removeprefix("Value error, "))
    what = _EXPECTED.get(kind, details["msg"])
    return Problem(
        place, what if kind in _WITHOUT_VALUE else f"{what}, not {_shown(place, details['input'])}"
    )


def _unknown_key(place: Place) -> str:
    key = str(place[-1])
    if (len(place) == 1 and key in RESERVED) or (_section(place) is LinkSection and key in RESERVED_IN_LINKS):
        return "not built yet"
    if _section(place) is TopicSection and key in LinkSection.model_fields:
        return "is a key of the link as a whole, not of an entry of topics"
    return "unknown key" + did_you_mean(key, _section(place).model_fields)


def _section(place: Place) -> type[BaseModel]:
    if len(place) == 1:
        return Document
    if place[0] == "links":
        return _IN_LINKS.get(place[2], LinkSection) if len(place) > 3 else LinkSection
    return SparkSection


def _shown(place: Place, value: Any) -> str:
    if any(isinstance(step, str) and is_secret(step) for step in place):
        return MASK
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value) if value != "" else "nothing"
