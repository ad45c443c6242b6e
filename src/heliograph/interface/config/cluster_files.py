"""`clusters.NAME.properties_file`: a file of Java's client properties, whose keys become the cluster's.

Owns which of its keys count. A key beside `properties_file` wins. Such a file is often shared with other clients: what
means nothing to a mirror (`acks`, `group.id`, a deserializer) is left out with a warning, where it would be refused in
the config itself. What is about security is never left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliograph.cluster.properties import HONOURED
from heliograph.cluster.refused_properties import refusal
from heliograph.cluster.security.security_properties import is_about_security
from heliograph.interface.config.checks import misplaced_properties
from heliograph.interface.config.clear_secrets import cautions_about, clear_secrets
from heliograph.interface.config.problems import Place, Problem, did_you_mean
from heliograph.interface.config.properties_file import PropertiesProblem, read_properties
from heliograph.interface.config.value_types import PROPERTIES_FILE
from heliograph.model.events import Event
from heliograph.model.settings import Caution


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The tree with the files' keys in it. `origins`: the file that a property stands in, if it is not the config."""

    tree: dict[str, Any] = field(repr=False)
    origins: Mapping[Place, Path]
    problems: list[Problem]
    cautions: list[Caution]

    def told(self, problems: list[Problem]) -> list[Problem]:
        """Of the files that the properties stand in; nothing more of a cluster whose file cannot be read."""
        unread = {problem.place[:2] for problem in self.problems}
        return [*self.problems, *(self._named(each) for each in problems if each.place[:2] not in unread)]

    def _named(self, problem: Problem) -> Problem:
        path = self.origins.get(problem.place)
        if path is None:
            return problem
        *cluster, name = problem.place
        return Problem((*cluster, PROPERTIES_FILE), f"{path}: {name}: {problem.what}")


def merge_files(tree: dict[str, Any], directory: Path) -> Merged:
    """`directory`: where relative paths begin. Whatever has the wrong shape is left to shape.py."""
    clusters = tree.get("clusters")
    parts = [
        _merge(name, properties, directory, misplaced_properties(name, tree.get("links")))
        for name, properties in (clusters if isinstance(clusters, dict) else {}).items()
        if isinstance(properties, dict) and isinstance(properties.get(PROPERTIES_FILE), str)
    ]
    for part in parts:
        tree = {**tree, "clusters": {**tree["clusters"], **part.tree}}
    return Merged(
        tree=tree,
        origins={place: path for part in parts for place, path in part.origins.items()},
        problems=[problem for part in parts for problem in part.problems],
        cautions=[caution for part in parts for caution in part.cautions],
    )


def _merge(name: str, properties: dict[str, Any], directory: Path, misplaced: frozenset[str]) -> Merged:
    """Of one cluster; the tree has that one alone. `misplaced`: properties of the side that the cluster never is."""
    own = {key: value for key, value in properties.items() if key != PROPERTIES_FILE}
    path = directory / properties[PROPERTIES_FILE]
    try:
        found = read_properties(path)
    except PropertiesProblem as problem:
        unread = Problem(("clusters", name, PROPERTIES_FILE), str(problem))
        return Merged(tree={name: own}, origins={}, problems=[unread], cautions=[])
    beside = {key: value for key, value in found.items() if key not in own}
    counting = {
        key: value
        for key, value in beside.items()
        # Also what is nearly about it: in other letters it would have no effect, and whoever wrote it counts on it.
        if is_about_security(key.casefold()) or (key in HONOURED and key not in misplaced)
    }
    left_out = [key for key in beside if key not in counting]
    return Merged(
        tree={name: {**counting, **own}},
        origins={("clusters", name, key): path for key in counting},
        problems=[],
        cautions=[*_without_effect(name, path, left_out), *cautions_about(path, list(clear_secrets(found)))],
    )


def _without_effect(cluster: str, path: Path, left_out: list[str]) -> list[Caution]:
    if not left_out:
        return []
    shown = ", ".join(key if _is_known(key) else f"{key}{did_you_mean(key, HONOURED)}" for key in left_out)
    message = f"cluster {cluster!r}: these properties in {path} have no effect on a mirror: {shown}"
    hint = "docs/CONFIG.md lists the properties that are honoured"
    return [Caution(code=Event.PLAN_WARNING, message=message, hint=hint)]


def _is_known(key: str) -> bool:
    return key in HONOURED or refusal(key) is not None
