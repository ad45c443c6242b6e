"""Which links a run drives: one election each, and no grant that outlives what the election says."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.controller import drivership
from heliograph.controller.drivership import LEASE_MOST_S, Active, Drivership, Role, Standby, group_of

NOW = 1_000.0


class PlayedElection:
    def __init__(
        self,
        client: ClusterClient,
        group: str,
        *,
        describe: Mapping[str, Any],
        on_change: Callable[[Role], None],
    ) -> None:
        self.client, self.group, self.describe, self.on_change = client, group, describe, on_change
        self.lease_until = -math.inf
        self.started = 0
        self.left: list[bool] = []

    def start(self) -> None:
        self.started += 1

    async def aclose(self, leave: bool = True) -> None:
        self.left.append(leave)


class Story:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.elections: dict[str, PlayedElection] = {}
        self.changes: list[tuple[str, Role]] = []
        monkeypatch.setattr(drivership, "Election", self._elect)
        monkeypatch.setattr(drivership, "clock_of_suspended_time", lambda: NOW)
        groups = {link: (cast(ClusterClient, f"target of {link}"), f"group of {link}") for link in ("a", "b")}
        fingerprints = {link: f"config of {link}" for link in groups}
        self.made = Drivership(groups, lambda link, role: self.changes.append((link, role)), fingerprints)

    def _elect(self, client: ClusterClient, group: str, **options: Any) -> PlayedElection:
        election = self.elections[group[-1]] = PlayedElection(client, group, **options)
        return election


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(monkeypatch)


def test_two_runs_of_one_link_meet_in_one_group_and_runs_of_others_do_not() -> None:
    assert group_of("sf-to-nyc", "id-1") == group_of("sf-to-nyc", "id-1") == "heliograph.sf-to-nyc.id-1"
    assert len({group_of(link, cluster) for link in ("x", "y") for cluster in ("1", "2")}) == 4


def test_every_link_has_an_election_of_its_own_on_its_target(story: Story) -> None:
    assert {(str(e.client), e.group) for e in story.elections.values()} == {
        ("target of a", "group of a"),
        ("target of b", "group of b"),
    }
    assert all(set(e.describe) == {"host", "pid", "config"} for e in story.elections.values())
    assert {link: e.describe["config"] for link, e in story.elections.items()} == {
        "a": "config of a",
        "b": "config of b",
    }
    story.made.start()
    assert [e.started for e in story.elections.values()] == [1, 1]


def test_a_change_is_told_with_its_link(story: Story) -> None:
    story.elections["b"].on_change(Standby(active=None))
    story.elections["a"].on_change(Active(generation=1, member="me"))
    assert story.changes == [("b", Standby(active=None)), ("a", Active(generation=1, member="me"))]


@pytest.mark.parametrize(
    ("lasts_s", "granted_s"),
    [(6.0, 6.0), (0.5, 0.5), (0.0, 0.0), (-20.0, 0.0), (-math.inf, 0.0), (30.0, LEASE_MOST_S)],
)
def test_a_grant_is_what_the_election_says_neither_negative_nor_long(
    story: Story, lasts_s: float, granted_s: float
) -> None:
    story.elections["a"].lease_until = NOW + lasts_s
    assert story.made.grants() == {"a": granted_s, "b": 0.0}


@pytest.mark.parametrize("leave", [True, False])
def test_stepping_down_ends_every_election_and_leaves_the_groups_if_told_to(
    story: Story, leave: bool
) -> None:
    asyncio.run(story.made.aclose(leave=leave))
    assert [e.left for e in story.elections.values()] == [[leave], [leave]]
