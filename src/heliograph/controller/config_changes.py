"""What a config says now, beside what a run goes by: what is applied while it runs, and what waits for a restart. Pure.

    links: one more, one less                        applied
    topics, exclude, policies, whatever else         applied: what a link selects anew is `rejoining`, because the
                                                     election knows a run by what it selected when it came
    source, target, naming, properties of clients    restart needed; a link keeps what it runs with
    spark, lanes, lane_memory                        restart needed

Secrets are secret_watch.py's: what is in use stays in use here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

from heliograph.cluster.security.security_properties import is_about_security
from heliograph.model.claims import Claim
from heliograph.model.link import Link
from heliograph.model.settings import Settings

_FIXED = ("source", "target", "naming", "separator")  # of a link
_LIVE = ("clusters", "links", "discovery_interval_s", "cautions")
_KEYS = {"lane_memory_bytes": "lane_memory"}  # as the config calls them, where that differs


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanges:
    """`settings`: what the run goes on with. Links by name. `words`: what is applied; `restart`: keys that are not."""

    settings: Settings
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rejoining: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


def config_changes(running: Settings, read: Settings, claims: Mapping[str, Claim]) -> ConfigChanges:
    """`claims`: by link, as what it stands for election; those that do not yet are left out."""
    before, after = {each.name: each for each in running.links}, {each.name: each for each in read.links}
    kept = [name for name in after if name in before]
    links = {name: _continued(before[name], link) if name in before else link for name, link in after.items()}
    in_use = {cluster for name in kept for cluster in (before[name].source, before[name].target)}
    differing = {name: _differing(before[name], links[name]) for name in kept}
    changed = [name for name in kept if differing[name]]
    rejoining = [name for name in changed if name in claims and not claims[name].includes(links[name].claim)]
    added, removed = [n for n in after if n not in before], [n for n in before if n not in after]
    words = [
        *(f"link {name} is added" for name in added),
        *(f"link {name} is removed" for name in removed),
        *(f"link {name}: {', '.join(differing[name])}" for name in changed),
    ]
    if running.discovery_interval_s != read.discovery_interval_s:
        words.append("discovery_interval")
    return ConfigChanges(
        settings=replace(
            running,
            clusters={**read.clusters, **{name: running.clusters[name] for name in in_use}},
            links=tuple(links.values()),
            discovery_interval_s=read.discovery_interval_s,
        ),
        added=tuple(added),
        removed=tuple(removed),
        rejoining=tuple(rejoining),
        changed=tuple(name for name in changed if name not in rejoining),
        words=tuple(words),
        restart=(
            *_of_run(running, read),
            *(key for name in kept for key in _of_link(before[name], after[name])),
            *(
                f"clusters.{name}.{key}"
                for name in sorted(in_use)
                for key in _properties(
                    running.clusters[name], read.clusters.get(name, running.clusters[name])
                )
            ),
        ),
    )


def _continued(own: Link, read: Link) -> Link:
    """The link as it is read, but for what it cannot change while it runs."""
    return replace(
        read,
        source=own.source,
        target=own.target,
        naming=own.naming,
        separator=own.separator,
        consumer=own.consumer,
        producer=own.producer,
    )


def _differing(own: Link, new: Link) -> list[str]:
    """Names of keys."""
    return [each.name for each in fields(Link) if getattr(own, each.name) != getattr(new, each.name)]


def _of_run(running: Settings, read: Settings) -> Iterator[str]:
    for name in (each.name for each in fields(Settings) if each.name not in _LIVE):
        own, new = getattr(running, name), getattr(read, name)
        if name == "spark":
            yield from (
                f"spark.{each.name}"
                for each in fields(own)
                if getattr(own, each.name) != getattr(new, each.name)
            )
        elif own != new:
            yield _KEYS.get(name, name)


def _of_link(own: Link, read: Link) -> Iterator[str]:
    yield from (f"links.{own.name}.{key}" for key in _FIXED if getattr(own, key) != getattr(read, key))
    yield from (f"links.{own.name}.consumer.{key}" for key in _properties(own.consumer, read.consumer))
    yield from (f"links.{own.name}.producer.{key}" for key in _properties(own.producer, read.producer))


def _properties(own: Mapping[str, str], read: Mapping[str, str]) -> list[str]:
    names = sorted({*own, *read})
    return [name for name in names if not is_about_security(name) and own.get(name) != read.get(name)]
