"""Properties that something else limits are said, and only those that somebody set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.controller import clusters
from heliograph.controller.finding import Finding
from heliograph.controller.limited_properties import limited_properties
from heliograph.controller.plan import plan
from heliograph.model.events import Severity
from heliograph.model.settings import MIB, Settings

from .observed import LINK, snapshot, source_topic


def warnings(lane_memory_bytes: int = 64 * MIB, **properties: dict[str, str]) -> list[str]:
    settings = Settings(
        clusters={"sf": {}, "nyc": {}, **properties}, links=(LINK,), lane_memory_bytes=lane_memory_bytes
    )
    findings = limited_properties(settings, settings.links)
    assert all(f.severity is Severity.WARNING for f in findings)
    return [str(f) for f in findings]


def test_defaults_are_nobodys_wish() -> None:
    assert warnings(lane_memory_bytes=8 * MIB) == []


def test_metadata_that_may_be_old_is_read_every_3_seconds_all_the_same() -> None:
    age = {"metadata.max.age.ms": "300000"}
    words = (
        "metadata.max.age.ms is 300000, but not more than 3000 takes effect: a lane reads the metadata of its topics"
        " every 3000 ms, to see topics that are recreated (hint: metadata.max.age.ms: 3000)"
    )
    assert warnings(sf=age) == [f"link sf-to-nyc: cluster 'sf': {words}"]
    assert warnings(nyc=age) == [f"link sf-to-nyc: cluster 'nyc': {words}"]
    assert warnings(sf={"metadata.max.age.ms": "3000"}) == []


def test_a_fetch_is_never_larger_than_a_quarter_of_a_lanes_memory() -> None:
    (warning,) = warnings(sf={"fetch.max.bytes": str(16 * MIB + 1)})
    assert "fetch.max.bytes is 16777217, but not more than 16777216 takes effect" in warning
    assert warnings(sf={"fetch.max.bytes": str(16 * MIB)}) == []
    assert warnings(lane_memory_bytes=128 * MIB, sf={"fetch.max.bytes": str(16 * MIB + 1)}) == []
    (warning,) = warnings(lane_memory_bytes=8 * MIB, sf={"max.partition.fetch.bytes": str(4 * MIB)})
    assert "max.partition.fetch.bytes is 4194304" in warning


def test_what_a_link_overrides_counts() -> None:
    link = replace(LINK, consumer={"fetch.max.bytes": str(64 * MIB)})
    settings = Settings(clusters={"sf": {"fetch.max.bytes": "1"}, "nyc": {}}, links=(link,))
    assert len(limited_properties(settings, [link])) == 1


async def test_a_run_and_a_plan_hear_of_it_with_what_the_clusters_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing_is_missing(*_: object) -> tuple[Finding, ...]:
        return ()

    monkeypatch.setattr(clusters, "preflight_links", nothing_is_missing)
    servers = {"bootstrap.servers": "127.0.0.1:1"}
    settings = Settings(
        clusters={"sf": servers | {"metadata.max.age.ms": "60000"}, "nyc": servers}, links=(LINK,)
    )
    seen = snapshot(source_topic())
    (warning,) = plan([seen], await clusters.Clusters(settings).preflight([seen])).warnings
    assert "metadata.max.age.ms is 60000" in warning
