"""YAML text to a plain tree of mappings, lists and strings.

Owns YAML's own errors. Scalars stay text as written, so that a cluster may be called `no`, and a value
from ${ENV} means the same as one written in place; the schema gives them types.
"""

from __future__ import annotations

from typing import Any

import yaml

from heliograph.model.errors import ConfigError


class _TextLoader(yaml.BaseLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            raise _duplicate(node)
        return mapping


def parse_yaml(text: str, *, name: str) -> Any:
    """The tree; ConfigError `name:line:column: what` if this is no YAML."""
    try:
        return yaml.load(text, Loader=_TextLoader)  # builds text, lists and dicts only
    except RecursionError:
        raise ConfigError([f"{name}: nested too deeply to be a config"]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise ConfigError([f"{place}: {error.problem or error.context}"], hint=_hint(str(error))) from None
    except yaml.YAMLError as error:
        raise ConfigError([f"{name}: {error}"], hint="the file must be UTF-8 text in YAML") from None


def _duplicate(node: yaml.MappingNode) -> yaml.MarkedYAMLError:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.value in seen:
            return yaml.MarkedYAMLError(
                problem=f"key {key.value!r} is there twice", problem_mark=key.start_mark
            )
        seen.add(key.value)
    raise AssertionError("a shorter mapping has a key twice")


def _hint(error: str) -> str:
    if "\\t" in error:
        return "YAML is indented with spaces, not tabs"
    if "twice" in error:
        return "keep one of the two"
    if "mapping values are not allowed" in error:
        return "check the indentation, and quote values that hold ': '"
    return "quote values that hold any of { } [ ] : , & * # ? | < > = ! % @ `"
