"""`${ENV}` and `${file:/path:key}` in values: replaced before anything is checked.

Owns the syntax (`$${` is a plain `${`). A reference that leads nowhere is a problem, never an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heliograph.interface.config.problems import Place, Problem
from heliograph.interface.config.properties_file import PropertiesProblem, read_properties

_REFERENCE = re.compile(r"\$(?P<escaped>\$)?\{(?P<name>[^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


class _Missing(Exception):
    """A reference that leads nowhere."""


def resolve(tree: Any, environment: Mapping[str, str], directory: Path) -> tuple[Any, list[Problem]]:
    """The tree with every reference replaced, and the references that could not be. `directory`: where relative paths
    begin."""
    problems: list[Problem] = []

    def walk(node: Any, place: Place) -> Any:
        if isinstance(node, dict):
            return {key: walk(value, (*place, key)) for key, value in node.items()}
        if isinstance(node, list):
            return [walk(value, (*place, index)) for index, value in enumerate(node)]
        if not isinstance(node, str):
            return node
        try:
            return _REFERENCE.sub(lambda found: _replacement(found, environment, directory), node)
        except _Missing as missing:
            problems.append(Problem(place, str(missing)))
            return node

    return walk(tree, ()), problems


def without_references(text: str) -> str:
    """What stands in the text as it is."""
    return _REFERENCE.sub(lambda found: found[0] if found["escaped"] else "", text)


def _replacement(found: re.Match[str], environment: Mapping[str, str], directory: Path) -> str:
    name = found["name"]
    if found["escaped"]:
        return f"${{{name}}}"
    if name.startswith("file:"):
        return _from_file(name, directory)
    if not _VARIABLE.fullmatch(name):
        # It may be part of a password, and is not quoted.
        raise _Missing("a reference is neither ${NAME} nor ${file:/path:key}; write $${ for a plain ${")
    if name not in environment:
        raise _Missing(f"environment variable {name!r} is not set")
    return environment[name]


def _from_file(reference: str, directory: Path) -> str:
    path, _, key = reference.removeprefix("file:").rpartition(":")
    if not path or not key:
        raise _Missing(f"${{{reference}}} is not of the form ${{file:/path:key}}")
    try:
        properties = read_properties(directory / path)
    except PropertiesProblem as problem:
        raise _Missing(str(problem)) from None
    if key not in properties:
        raise _Missing(f"{path} has no key {key!r}")
    return properties[key]
