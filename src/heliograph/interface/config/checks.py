"""Checks that look at more than one value of heliograph.yaml.

They read the raw tree, not the parsed document, so that they still speak when another key is wrong; whatever
has the wrong shape is passed over here, because shape.py reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heliograph.cluster.properties import OF_CLUSTER, SOURCE_ONLY, TARGET_ONLY, property_problems
from heliograph.cluster.security.security_properties import missing_security
from heliograph.interface.config.problems import Place, Problem, did_you_mean


def check_document(tree: dict[str, Any]) -> list[Problem]:
    clusters = _mapping(tree.get("clusters"))
    links = {name: _mapping(link) for name, link in _mapping(tree.get("links")).items()}
    problems = [problem for name in clusters for problem in _cluster(name, clusters[name])]
    for name in clusters:
        problems.extend(_one_sided(name, _texts(clusters[name]), links))
        problems.extend(_missing(name, _texts(clusters[name]), list(links.values())))
    for name, link in links.items():
        problems.extend(_link(("links", name), link, clusters))
    return problems + list(_spark_conf(_texts(_mapping(tree.get("spark")).get("conf"))))


def _cluster(name: str, properties: Any) -> Iterator[Problem]:
    if not isinstance(properties, dict):
        return
    place: Place = ("clusters", name)
    if "bootstrap.servers" not in properties:
        yield Problem((*place, "bootstrap.servers"), "required: at least one host:port")
    yield from _properties(place, _texts(properties), {})


def _missing(name: str, properties: dict[str, str], links: list[dict[str, Any]]) -> Iterator[Problem]:
    """What no override of a link gives either: a cluster may leave who it is to each of its links."""
    overrides = [
        _texts(link.get(key))
        for link in links
        for side, key in (("source", "consumer"), ("target", "producer"))
        if link.get(side) == name
    ]
    found = [missing_security(properties | each) for each in overrides or [{}]]
    for problem in dict.fromkeys(each for some in found for each in some):
        yield _problem(("clusters", name), problem)


def misplaced_properties(cluster: str, links: Any) -> frozenset[str]:
    """Of the side that the cluster never is. One that no link names may be for later: it is let alone."""
    found = [_mapping(link) for link in _mapping(links).values()]
    is_source = any(link.get("source") == cluster for link in found)
    is_target = any(link.get("target") == cluster for link in found)
    if is_source == is_target:
        return frozenset()
    return TARGET_ONLY if is_source else SOURCE_ONLY


def _one_sided(name: str, properties: dict[str, str], links: Any) -> Iterator[Problem]:
    misplaced = misplaced_properties(name, links)
    role, other = ("source", "target") if misplaced is TARGET_ONLY else ("target", "source")
    for key in properties:
        if key in misplaced:
            what = f"has no effect: {name} is only the {role} of links; set it on the cluster that is the {other}"
            yield Problem(("clusters", name, key), what)


def _link(place: Place, link: dict[str, Any], clusters: dict[str, Any]) -> Iterator[Problem]:
    for side in ("source", "target"):
        name = link.get(side)
        if isinstance(name, str) and name not in clusters:
            yield Problem((*place, side), f"unknown cluster {name!r}{did_you_mean(name, clusters)}")
    if isinstance(link.get("source"), str) and link.get("source") == link.get("target"):
        yield Problem((*place, "target"), f"{link['target']!r} is the source too; a link joins two clusters")
    if link.get("separator", ".") != "." and link.get("naming", "same") != "prefix":
        yield Problem((*place, "separator"), "has no effect without naming: prefix")
    for side, key, misplaced in (("source", "consumer", TARGET_ONLY), ("target", "producer", SOURCE_ONLY)):
        overrides = _texts(link.get(key))
        yield from _misplaced((*place, key), overrides, misplaced)
        yield from _properties((*place, key), overrides, _texts(clusters.get(str(link.get(side)))))


def _misplaced(place: Place, overrides: dict[str, str], misplaced: frozenset[str]) -> Iterator[Problem]:
    other = "producer" if place[-1] == "consumer" else "consumer"
    for name in overrides:
        if name in OF_CLUSTER:
            yield Problem((*place, name), "belongs to the cluster; name another cluster instead")
        elif name in misplaced:
            yield Problem((*place, name), f"has no effect here; set it under {other}")


def _properties(place: Place, properties: dict[str, str], inherited: dict[str, str]) -> Iterator[Problem]:
    """What `properties` add to the problems that the ones they override have already."""
    known = set(property_problems(inherited))
    for problem in property_problems({**inherited, **properties}):
        if problem not in known:
            yield _problem(place, problem)


def _problem(place: Place, problem: str) -> Problem:
    """Of a property, told as `name: what is wrong`."""
    name, _, what = problem.partition(": ")
    return Problem((*place, name), what)


def _spark_conf(conf: dict[str, str]) -> Iterator[Problem]:
    for name in conf:
        if not name.startswith("spark."):
            yield Problem(("spark", "conf", name), "not a Spark property: they begin with spark.")
    if "spark.master" in conf:
        # Spark would take it, and the mirror would go by the other one when it counts lanes.
        yield Problem(("spark", "conf", "spark.master"), "set master under spark instead")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> dict[str, str]:
    return {key: text for key, text in _mapping(value).items() if isinstance(text, str)}
