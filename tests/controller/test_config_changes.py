"""What of a config that has changed is applied while a mirror runs, and what waits for a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.controller.config_changes import ConfigChanges, config_changes
from heliograph.interface.config_file import load_settings
from heliograph.model.link import Link
from heliograph.model.policy import LinkPolicy, Oversize
from heliograph.model.settings import Settings, SparkSettings

A = Link(name="a", source="sf", target="nyc", topics=("orders", "payments"), exclude=("x",))
B = Link(name="b", source="sf", target="lax", topics=(".*",))
SF, NYC, LAX = ({"bootstrap.servers": f"{name}:9092"} for name in ("sf", "nyc", "lax"))
RUNNING = Settings(clusters={"sf": SF, "nyc": NYC, "lax": LAX}, links=(A, B))
CLAIMS = {link.name: link.claim for link in (A, B)}


def changes(read: Settings) -> ConfigChanges:
    return config_changes(RUNNING, read, CLAIMS)


def with_a(**changed: Any) -> ConfigChanges:
    return changes(replace(RUNNING, links=(replace(A, **changed), B)))


def test_a_config_that_says_the_same_changes_nothing() -> None:
    found = changes(replace(RUNNING, links=(B, A)))
    assert (found.words, found.restart) == ((), ())


def test_a_file_that_is_read_twice_says_the_same(tmp_path: Path) -> None:
    """Also where it says something that depends on the time of day."""
    text = """
        version: 1
        clusters: {sf: {bootstrap.servers: "sf:1"}, nyc: {bootstrap.servers: "nyc:1"}}
        links:
          a: {source: sf, target: nyc, start: -3d, topics: [orders, {match: "p.*", start: "-7d"}]}
    """
    one, two = (load_settings(text, name="x", path=tmp_path / "x") for _ in range(2))
    found = config_changes(one, two, {link.name: link.claim for link in one.links})
    assert (found.words, found.restart) == ((), ())


def test_links_come_with_their_clusters_and_go_with_theirs() -> None:
    tokyo = {"bootstrap.servers": "tokyo:9092"}
    new = Link(name="c", source="nyc", target="tokyo", topics=("o",))
    found = changes(replace(RUNNING, clusters={"sf": SF, "nyc": NYC, "tokyo": tokyo}, links=(A, new)))
    assert (found.added, found.removed, found.changed, found.restart) == (("c",), ("b",), (), ())
    assert found.settings.clusters == {"sf": SF, "nyc": NYC, "tokyo": tokyo}
    assert found.words == ("link c is added", "link b is removed")


@pytest.mark.parametrize(
    "less",
    [{"topics": ("orders",)}, {"exclude": ("x", "payments")}, {"policy": LinkPolicy(oversize=Oversize.SKIP)}],
    ids=["a pattern less", "excluded", "another policy"],
)
def test_what_selects_no_more_than_it_did_goes_on_as_the_same_member(less: dict[str, Any]) -> None:
    found = with_a(**less)
    assert (found.changed, found.rejoining) == (("a",), ())
    assert found.words == (f"link a: {next(iter(less))}",)


@pytest.mark.parametrize("more", [{"topics": ("orders", "payments", "new")}, {"exclude": ()}], ids=str)
def test_what_selects_more_stands_for_election_anew(more: dict[str, Any]) -> None:
    found = with_a(**more)
    assert (found.changed, found.rejoining) == ((), ("a",))


def test_a_link_that_selects_what_it_once_did_has_its_place_still() -> None:
    narrowed = replace(RUNNING, links=(replace(A, topics=("orders",)), B))
    found = config_changes(narrowed, RUNNING, CLAIMS)
    assert (found.changed, found.rejoining) == (("a",), ())


def test_a_link_that_does_not_run_yet_has_no_place_to_lose() -> None:
    wider = replace(RUNNING, links=(replace(A, topics=("new",)), B))
    assert config_changes(RUNNING, wider, {}).changed == ("a",)


@pytest.mark.parametrize(
    ("read", "key"),
    [
        (replace(RUNNING, spark=SparkSettings(master="local[3]")), "spark.master"),
        (replace(RUNNING, spark=SparkSettings(conf={"spark.x": "1"})), "spark.conf"),
        (replace(RUNNING, lanes=3), "lanes"),
        (replace(RUNNING, lane_memory_bytes=1 << 20), "lane_memory"),
        (replace(RUNNING, links=(replace(A, target="lax"), B)), "links.a.target"),
        (replace(RUNNING, links=(replace(A, naming="prefix"), B)), "links.a.naming"),
        (
            replace(RUNNING, links=(replace(A, consumer={"fetch.max.bytes": "9"}), B)),
            "links.a.consumer.fetch.max.bytes",
        ),
        (
            replace(RUNNING, clusters={**RUNNING.clusters, "sf": {"bootstrap.servers": "other:1"}}),
            "clusters.sf.bootstrap.servers",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_needs_a_restart_is_named_and_stays_as_it_is_while_the_rest_is_applied(
    read: Settings, key: str
) -> None:
    found = changes(replace(read, discovery_interval_s=1.0))
    assert found.restart == (key,)
    assert found.words == ("discovery_interval",)
    assert found.settings == replace(RUNNING, discovery_interval_s=1.0)
    assert found.settings.clusters == RUNNING.clusters


def test_secrets_are_not_taken_here_and_need_no_restart() -> None:
    secret = {**SF, "sasl.jaas.config": "new", "ssl.key.password": "p"}
    found = changes(replace(RUNNING, clusters={**RUNNING.clusters, "sf": secret}))
    assert (found.words, found.restart) == ((), ())
    assert found.settings.clusters["sf"] == SF


def test_a_cluster_that_no_link_used_may_change_at_will() -> None:
    running = replace(RUNNING, links=(A,))
    lax = {"bootstrap.servers": "elsewhere:1"}
    found = config_changes(running, replace(RUNNING, clusters={**RUNNING.clusters, "lax": lax}), CLAIMS)
    assert (found.added, found.restart) == (("b",), ())
    assert found.settings.clusters["lax"] == lax
