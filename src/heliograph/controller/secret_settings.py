"""The settings of a run with the secrets of a config that was read again, and nothing else of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from heliograph.cluster.security.security_properties import is_about_security
from heliograph.model.link import Link
from heliograph.model.settings import Settings


def with_secrets_of(running: Settings, read: Settings, clusters: Collection[str]) -> Settings:
    """The settings of the run, with what the others say about the security of these clusters."""
    links = {link.name: link for link in read.links}

    def of_link(own: Link) -> Link:
        other = links.get(own.name, own)
        consumer, producer = _secrets(own.consumer, other.consumer), _secrets(own.producer, other.producer)
        return replace(
            own,
            consumer=consumer if own.source in clusters else own.consumer,
            producer=producer if own.target in clusters else own.producer,
        )

    return replace(
        running,
        clusters={
            name: _secrets(own, read.clusters.get(name, own)) if name in clusters else own
            for name, own in running.clusters.items()
        },
        links=tuple(map(of_link, running.links)),
    )


def _secrets(own: Mapping[str, str], read: Mapping[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in own.items() if not is_about_security(name)}
    return kept | {name: text for name, text in read.items() if is_about_security(name)}
