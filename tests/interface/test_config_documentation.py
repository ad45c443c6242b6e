"""docs are tested: a setting that is not documented fails."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import BaseModel

from heliograph.cluster.properties import HONOURED, ClientProperties
from heliograph.cluster.security.security_properties import SECURITY_DEFAULTS
from heliograph.interface.config.schema import (
    Document,
    LinkSection,
    SparkSection,
    TopicConfigsSection,
    TopicSection,
)
from heliograph.interface.config.value_types import PROPERTIES_FILE

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| `([\w.]+)` \| (.*?) \|", (ROOT / "docs" / "CONFIG.md").read_text(encoding="utf-8"), re.M
)
DOCUMENTED = dict(ROWS)
SECTIONS: list[type[BaseModel]] = [
    Document,
    LinkSection,
    TopicSection,
    TopicConfigsSection,
    SparkSection,
]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_the_config_is_documented(section: type[BaseModel]) -> None:
    assert set(section.model_fields) <= set(DOCUMENTED)


def test_every_honoured_kafka_property_is_documented_with_its_default() -> None:
    defaults = {field.name.replace("_", "."): str(field.default) for field in fields(ClientProperties)}
    defaults |= SECURITY_DEFAULTS
    assert DOCUMENTED[PROPERTIES_FILE] == "none"
    for name in HONOURED:
        default = f"`{defaults[name]}`" if defaults[name] else "none"
        assert DOCUMENTED[name] == ("required" if name == "bootstrap.servers" else default)


def test_no_key_is_documented_that_does_not_exist() -> None:
    known = {key for section in SECTIONS for key in section.model_fields}
    assert set(DOCUMENTED) <= known | set(HONOURED) | {PROPERTIES_FILE}


def test_what_an_entry_of_topics_may_say_is_documented() -> None:
    said = ", ".join(f"`{key}`" for key in TopicSection.model_fields if key != "match")
    assert f"| {said} | the link's |" in (ROOT / "docs" / "CONFIG.md").read_text(encoding="utf-8")
