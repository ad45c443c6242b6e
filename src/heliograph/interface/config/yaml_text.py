"""YAML text to a plain tree of mappings, lists and strings.

Owns YAML's own errors. Scalars stay text as written, so that a cluster may be called `no`, and a value
from ${ENV} means the same as one written in place; the schema gives them types.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from heliograph.model.errors import ConfigError

# Where YAML's words quote the file: a password that begins with * or & is taken for such a name.
_NAMED = re.compile(r"\b(alias|anchor|tag|tag handle) '[^']*'")
EXPANDED_LIMIT = 100_000  # a second of work. Nobody writes so much by aliases, except to make readers hang.


class _TextLoader(yaml.BaseLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            raise _duplicate(node)
        return mapping

    def get_single_node(self) -> yaml.Node | None:
        root = super().get_single_node()
        if root is not None:
            _check_expanded(root)
        return root


def parse_yaml(text: str, *, name: str) -> Any:
    """The tree; ConfigError `name:line:column: what` if this is no YAML."""
    try:
        return yaml.load(text, Loader=_TextLoader)  # builds text, lists and dicts only
    except RecursionError:
        raise ConfigError([f"{name}: nested too deeply to be a config"]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        words = _NAMED.sub(r"\1", str(error.problem or error.context))
        raise ConfigError([f"{place}: {words}"], hint=_hint(str(error))) from None
    except yaml.YAMLError as error:
        raise ConfigError([f"{name}: {error}"], hint="the file must be UTF-8 text in YAML") from None


def _check_expanded(root: yaml.Node) -> None:
    """Aliases are few bytes, and what reads the tree goes through all that they stand for, once for each."""
    sizes: dict[yaml.Node, int] = {}

    def size(node: yaml.Node) -> int:
        if node not in sizes:
            sizes[node] = 1  # for a node that holds itself; it is refused when it is constructed
            sizes[node] += sum(map(size, _children(node)))
        return sizes[node]

    by_aliases = size(root) - len(sizes)  # what is written in full may be as long as it likes
    if by_aliases > EXPANDED_LIMIT:
        raise yaml.MarkedYAMLError(
            problem=f"its aliases expand to more than {EXPANDED_LIMIT:,} values", problem_mark=root.start_mark
        )


def _children(node: yaml.Node) -> list[yaml.Node]:
    match node:
        case yaml.MappingNode():
            return [each for pair in node.value for each in pair]
        case yaml.SequenceNode():
            return list(node.value)
    return []


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
    if "aliases expand" in error:
        return "write out what the aliases (*name) stand for"
    if "twice" in error:
        return "keep one of the two"
    if "mapping values are not allowed" in error:
        return "check the indentation, and quote values that hold ': '"
    return "quote values that hold any of { } [ ] : , & * # ? | < > = ! % @ `"
