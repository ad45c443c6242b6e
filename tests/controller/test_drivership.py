"""What a run may copy: the groups its links are elected by, and no grant that outlives what any of them says."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.group_protocol import GroupProtocol
from heliograph.cluster.standing import Permitted, Placed, Seeking, Standby, Standing, Term
from heliograph.controller import drivership
from heliograph.controller.drivership import LEASE_MOST_S, Active, Candidate, Drivership, Role, groups_of
from heliograph.model.claims import Claim, Claimant, Claims

NOW = 1_000.0
OF_ALL, OF_A = "heliograph.sf", "heliograph.a.sf"


class PlayedElection:
    def __init__(
        self,
        client: ClusterClient,
        group: str,
        protocol: GroupProtocol,
        *,
        on_change: Callable[[Standing], None],
    ) -> None:
        self.client, self.group, self.on_change = client, group, on_change
        self.says = json.loads(protocol.metadata())
        self.protocol = protocol.name
        self.lease_until = -math.inf
        self.started = 0
        self.left: list[bool] = []

    def start(self) -> None:
        self.started += 1

    async def aclose(self, leave: bool = True) -> None:
        self.left.append(leave)


def candidate(link: str, *, source: str = "sf", target: str = "nyc") -> Candidate:
    return Candidate(
        claim=Claim(link=link, topics=(f"{link}.*",)),
        fingerprint=f"config of {link}",
        target=cast(ClusterClient, f"target of {link}"),
        source_cluster_id=source,
        target_cluster_id=target,
    )


class Story:
    """Links a and b from sf to nyc, c from sf to lax, d from rio to nyc."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.elections: dict[tuple[str, str], PlayedElection] = {}
        self.changes: list[tuple[str, Role]] = []
        monkeypatch.setattr(drivership, "Election", self._elect)
        monkeypatch.setattr(drivership, "clock_of_suspended_time", lambda: NOW)
        candidates = [
            candidate("a"),
            candidate("b"),
            candidate("c", target="lax"),
            candidate("d", source="rio"),
        ]
        self.made = Drivership(candidates, lambda link, role: self.changes.append((link, role)))

    def _elect(self, client: ClusterClient, group: str, *said: Any, **options: Any) -> PlayedElection:
        election = self.elections[str(client), group] = PlayedElection(client, group, *said, **options)
        return election

    def of(self, group: str) -> PlayedElection:
        """On the target of link a."""
        return self.elections["target of a", group]


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(monkeypatch)


def test_a_renamed_link_and_a_second_config_meet_the_first_in_one_group() -> None:
    """The version before elected by the link's name: two names, two active drivers of one topic."""
    one, renamed = groups_of("sf-to-nyc", "id-1"), groups_of("renamed", "id-1")
    assert one[0] == renamed[0] == "heliograph.id-1"
    assert one[1] == "heliograph.sf-to-nyc.id-1"
    assert groups_of("sf-to-nyc", "id-2")[0] != one[0]


def test_each_link_is_a_member_of_the_group_of_its_clusters_and_of_one_of_its_own(story: Story) -> None:
    assert set(story.elections) == {
        ("target of a", "heliograph.sf"),
        ("target of b", "heliograph.sf"),
        ("target of c", "heliograph.sf"),
        ("target of d", "heliograph.rio"),
        ("target of a", "heliograph.a.sf"),
        ("target of b", "heliograph.b.sf"),
        ("target of c", "heliograph.c.sf"),
        ("target of d", "heliograph.d.rio"),
    }
    story.made.start()
    assert [e.started for e in story.elections.values()] == [1] * 8


def test_it_says_who_it_is_and_what_its_links_select(story: Story) -> None:
    of_all, of_link = story.of(OF_ALL), story.of(OF_A)
    assert (of_all.protocol, of_link.protocol) == ("heliograph/2", "heliograph/1")
    assert [claim["topics"] for claim in of_all.says["claims"]] == [["a.*"]]
    assert of_link.says["config"] == "config of a"
    assert all({"host", "pid"} <= set(e.says) for e in story.elections.values())


def test_a_link_that_comes_later_is_a_member_of_its_own_and_those_of_the_others_go_on(story: Story) -> None:
    """What a member claims never grows: who is in front of whom would depend on who has heard of it."""
    story.made.start()
    before = dict(story.elections)
    story.made.add(candidate("e"))
    added = {key: each for key, each in story.elections.items() if key not in before}
    assert set(added) == {("target of e", "heliograph.sf"), ("target of e", "heliograph.e.sf")}
    assert [each.started for each in story.elections.values()] == [1] * 10
    assert [claim["topics"] for claim in story.of(OF_ALL).says["claims"]] == [["a.*"]]
    assert [claim["topics"] for claim in added["target of e", OF_ALL].says["claims"]] == [["e.*"]]
    assert story.made.claims_group("e") is not story.made.claims_group("a")
    assert story.made.grants()["e"] == 0.0
    added["target of e", OF_ALL].on_change(PLACED)
    added["target of e", "heliograph.e.sf"].on_change(PERMITTED)
    assert story.changes == [("e", ACTIVE)]


CLAIMS = Claims(
    claimants=(Claimant(member="m1", seniority=1, host="h", pid=1, claims=(candidate("a").claim,)),)
)
PLACED = Placed(term=Term(generation=3, member="m1"), claims=CLAIMS)
PERMITTED = Permitted(term=Term(generation=5, member="m2"))
ACTIVE = Active(terms=(PLACED.term, PERMITTED.term), claims=CLAIMS)
BARRED = Standby(active="another")
AWAY = Seeking(problem="away")


@pytest.mark.parametrize(
    ("of_all", "of_link", "role"),
    [
        (PLACED, PERMITTED, ACTIVE),
        (PLACED, BARRED, BARRED),
        (AWAY, BARRED, BARRED),
        (PLACED, AWAY, AWAY),
        (AWAY, PERMITTED, AWAY),
        (AWAY, Seeking(problem="too"), Seeking(problem="away; too")),
    ],
)
def test_a_link_is_ours_while_both_groups_say_so(
    story: Story, of_all: Standing, of_link: Standing, role: Role
) -> None:
    story.of(OF_ALL).on_change(of_all)
    story.of(OF_A).on_change(of_link)
    assert [told for link, told in story.changes if link == "a"][-1] == role


def test_a_change_is_told_once_of_the_link_that_it_concerns(story: Story) -> None:
    story.of(OF_ALL).on_change(AWAY)
    story.of(OF_ALL).on_change(AWAY)
    assert story.changes == [("a", AWAY)]
    story.of(OF_A).on_change(BARRED)
    story.of(OF_ALL).on_change(PLACED)
    assert story.changes[1:] == [("a", BARRED)]


def test_a_link_that_is_removed_leaves_its_groups_and_nobody_hears_of_it_any_more(story: Story) -> None:
    asyncio.run(story.made.remove("b"))
    left = {key for key, each in story.elections.items() if each.left == [True]}
    assert left == {("target of b", "heliograph.sf"), ("target of b", "heliograph.b.sf")}
    assert set(story.made.grants()) == {"a", "c", "d"}
    story.elections["target of b", OF_ALL].on_change(AWAY)
    assert story.changes == []


@pytest.mark.parametrize(
    ("lasts_s", "granted_s"),
    [(6.0, 6.0), (0.5, 0.5), (0.0, 0.0), (-20.0, 0.0), (-math.inf, 0.0), (30.0, LEASE_MOST_S)],
)
@pytest.mark.parametrize("shorter", [OF_ALL, OF_A])
def test_a_grant_is_the_shorter_of_what_both_groups_say_neither_negative_nor_long(
    story: Story, lasts_s: float, granted_s: float, shorter: str
) -> None:
    story.of(OF_ALL).lease_until = story.of(OF_A).lease_until = NOW + 40
    story.of(shorter).lease_until = NOW + lasts_s
    assert story.made.grants() == {"a": granted_s, "b": 0.0, "c": 0.0, "d": 0.0}


@pytest.mark.parametrize("leave", [True, False])
def test_stepping_down_ends_every_election_and_leaves_the_groups_if_told_to(
    story: Story, leave: bool
) -> None:
    asyncio.run(story.made.aclose(leave=leave))
    assert [e.left for e in story.elections.values()] == [[leave]] * 8


# -- which topics are ours


def active(*claimants: Claimant, member: str) -> Active:
    return Active(terms=(Term(generation=1, member=member),), claims=Claims(claimants=claimants))


def test_a_topic_is_ours_if_our_own_link_has_it_and_else_it_is_said_who_does() -> None:
    one = Claimant(member="1", seniority=1, host="h", pid=7, claims=(Claim(link="x", topics=("a", "b")),))
    links = (Claim(link="x", topics=("b", "c")), Claim(link="y", topics=("d",)))
    two = Claimant(member="2", seniority=2, host="i", pid=8, claims=links)
    ours = active(one, two, member="2")
    assert str(ours.held_by("x", "b")) == "h (pid 7), link x"
    assert ours.held_by("x", "c") is None
    assert str(ours.held_by("x", "d")) == "i (pid 8), link y"
    assert ours.in_front == (one,)


def test_a_run_behind_one_that_selects_the_same_knows_it_without_looking_at_topics() -> None:
    claim, renamed = Claim(link="x", topics=("a", "b")), Claim(link="y", topics=("b", "a"))
    one = Claimant(member="1", seniority=1, host="h", pid=7, claims=(claim,))
    two = Claimant(member="2", seniority=2, host="i", pid=8, claims=(renamed,))
    assert str(active(one, two, member="2").all_held_by(renamed)) == "h (pid 7), link x"
    assert active(one, two, member="1").all_held_by(claim) is None
    assert active(one, two, member="2").all_held_by(Claim(link="y", topics=("a",))) is None
