"""What the security properties of clusters come to when the whole config is known: paths, and what protects little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from heliograph.cluster.security.file_paths import with_paths
from heliograph.cluster.security.security_properties import parse_security
from heliograph.cluster.security.weaknesses import weaknesses_of
from heliograph.model.events import Event
from heliograph.model.settings import Caution, Settings


def with_absolute_paths(settings: Settings, directory: Path) -> Settings:
    """Relative paths begin at `directory`. Lanes run elsewhere, and their working directory is Spark's choice."""

    def absolute(path: str) -> str:
        return str(directory / path)

    return replace(
        settings,
        clusters={name: with_paths(each, absolute) for name, each in settings.clusters.items()},
        links=tuple(
            replace(
                link,
                consumer=with_paths(link.consumer, absolute),
                producer=with_paths(link.producer, absolute),
            )
            for link in settings.links
        ),
    )


def weak_clusters(settings: Settings) -> tuple[Caution, ...]:
    """Each weakness of a cluster once, however many links have it."""
    return tuple(dict.fromkeys(_weak_clusters(settings)))


def _weak_clusters(settings: Settings) -> Iterator[Caution]:
    used = [
        (name, properties)
        for link in settings.links
        for name, properties in (
            (link.source, settings.source_properties(link)),
            (link.target, settings.target_properties(link)),
        )
    ]
    for name, properties in used:
        for message, hint in weaknesses_of(parse_security(properties)):
            yield Caution(code=Event.INSECURE, message=f"cluster {name!r}: {message}", hint=hint)
