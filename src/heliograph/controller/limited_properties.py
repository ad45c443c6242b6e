"""Kafka properties that were set, and that something else of the mirror limits: said as warnings of the plan.

They are not refused: configs come over from other tools with such values, and what is in force is on the safe side of
what was asked for. Knows the limits by their owners' constants. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from heliograph.controller.finding import Finding
from heliograph.copier.fetch_limits import FETCH_SHARE
from heliograph.copier.lane import LOOK_INTERVAL_S
from heliograph.model.events import Severity
from heliograph.model.link import Link
from heliograph.model.settings import Settings

_LOOK_MS = int(LOOK_INTERVAL_S * 1000)


def limited_properties(settings: Settings, links: Iterable[Link]) -> tuple[Finding, ...]:
    return tuple(finding for link in links for finding in _of_link(settings, link))


def _of_link(settings: Settings, link: Link) -> Iterator[Finding]:
    """Only what the config sets: Kafka's defaults were nobody's wish."""
    source, target = settings.source_properties(link), settings.target_properties(link)
    looks = f"a lane reads the metadata of its topics every {_LOOK_MS} ms, to see topics that are recreated"
    yield from _above(link.name, link.source, source, "metadata.max.age.ms", _LOOK_MS, looks)
    yield from _above(link.name, link.target, target, "metadata.max.age.ms", _LOOK_MS, looks)
    share_bytes = settings.lane_memory_bytes // FETCH_SHARE
    fetches = f"a lane fetches at most {share_bytes} bytes at once, 1/{FETCH_SHARE} of lane_memory"
    for name in ("fetch.max.bytes", "max.partition.fetch.bytes"):
        yield from _above(link.name, link.source, source, name, share_bytes, fetches)


def _above(
    link: str, cluster: str, properties: Mapping[str, str], name: str, limit: int, why: str
) -> Iterator[Finding]:
    value = int(properties.get(name, limit))
    if value > limit:
        yield Finding(
            severity=Severity.WARNING,
            link=link,
            cluster=cluster,
            message=f"{name} is {value}, but not more than {limit} takes effect: {why}",
            hint=f"{name}: {limit}",
        )
