"""Whatever is lost, late, frozen or taken over: never two runs hold one topic, and in the end one does (P2)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from heliograph.cluster.claims_group import ClaimsGroup
from heliograph.cluster.group_membership import Membership, NextStep, _Phase
from heliograph.cluster.leader_group import LeaderGroup
from heliograph.model.claims import Claim
from heliograph.wire.error_codes import ErrorCode

from .election_world import ALL, Run, Talk, World

TOPICS = ("a", "b", "c")
PATTERNS = ("a", "b", "c", "[ab]", "[bc]", "[abc]")
FAULTS_S, CALM_S = 300.0, 60.0


class Judge:
    """What was seen: who held what when, and where two held one topic at once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.overlaps: list[str] = []
        self.held: set[tuple[int, str]] = set()
        world.judge = self.look

    def look(self) -> None:
        for topic in TOPICS:
            holding = [run.nth for run in self.world.runs if run.holds(topic)]
            self.held.update((nth, topic) for nth in holding)
            if len(holding) > 1:
                self.overlaps.append(f"topic {topic}: runs {holding} at {self.world.now:.3f} s")


def some_claim(link: str, chance: random.Random) -> Claim:
    return Claim(link=link, topics=tuple(chance.sample(PATTERNS, chance.choice((1, 2)))))


def claims_only(seed: int) -> World:
    """Runs of this version: their links have two names, and select what they like."""
    world = World(seed)
    chance = random.Random(seed)
    for _ in range(2 + seed % 3):
        world.add(link := chance.choice("xy"), some_claim(link, chance))
    return world


def both_versions(seed: int) -> World:
    """One link's name: two runs of each version."""
    world = World(seed)
    chance = random.Random(seed)
    for _ in range(2):
        world.add("x", some_claim("x", chance))
        world.add("x", None)
    return world


def selecting_more(seed: int) -> World:
    """Runs of this version that select more after a while, each at another time."""
    world = World(seed)
    chance = random.Random(seed)
    for _ in range(2 + seed % 2):
        link = chance.choice("xy")
        world.add(link, some_claim(link, chance), later=some_claim(link, chance))
    return world


def play(world: World) -> Judge:
    judge = Judge(world)
    world.run_until(FAULTS_S)
    return judge


@pytest.mark.parametrize("make", [claims_only, both_versions, selecting_more])
@pytest.mark.parametrize("seed", range(25))
def test_never_two_runs_hold_one_topic_and_in_the_end_one_does(make: Any, seed: int) -> None:
    world = make(seed)
    judge = play(world)
    assert judge.overlaps == []
    world.calm = True
    world.run_until(FAULTS_S + CALM_S)
    assert judge.overlaps == []
    for topic in TOPICS:
        holding = [run for run in world.runs if run.holds(topic)]
        # What only runs of the version before select is copied while one of them leads their link's group.
        asked = any(run.wants(topic) for run in world.runs if ALL in run.talks or run in holding)
        assert len(holding) == asked, topic


def test_topics_change_hands_in_these_worlds() -> None:
    """Or they would show nothing."""
    for make in (claims_only, both_versions, selecting_more):
        holders = [len({nth for nth, _ in play(make(seed)).held}) for seed in range(5)]
        assert max(holders) > 1


# -- a rule that is switched off is found


def count_from_the_answer(talk: Talk, number: int, response: Any, _sent_at: float) -> None:
    sound_heard(talk, number, response, talk._world.now)


def renew_in_a_rebalance(membership: Membership, response: Any, sent_at: float) -> NextStep:
    if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
        membership._until = sent_at + membership.session_s
    return sound_answered(membership, response, sent_at=sent_at)


sound_heard, sound_answered = Talk.heard, Membership.answered


sound_metadata = ClaimsGroup.metadata


def report_no_seniority(group: ClaimsGroup) -> bytes:
    group.forget("")
    return sound_metadata(group)


def say_more_in_the_old_place(run: Run, claim: Claim) -> None:
    """As the same member, with a place in front of some that hold the topics."""
    assert run._claims is not None
    run._claims = [*run._claims, claim]
    if ALL in run.talks:
        group = run.talks[ALL].protocol
        assert isinstance(group, ClaimsGroup)
        group._says = ClaimsGroup("h", run.nth, run._claims)._says
        run.membership(ALL)._phase = _Phase.JOIN


@pytest.mark.parametrize(
    ("make", "where", "sound", "planted"),
    [
        (claims_only, Talk, "heard", count_from_the_answer),
        (claims_only, Membership, "answered", renew_in_a_rebalance),
        (claims_only, ClaimsGroup, "metadata", report_no_seniority),
        (both_versions, LeaderGroup, "keeps", lambda _self, _assigned, _leads: True),
        (selecting_more, Run, "select", say_more_in_the_old_place),
    ],
    ids=[
        "counted from the answer",
        "renewed in a rebalance",
        "no seniority",
        "permission kept",
        "a claim grown",
    ],
)
def test_a_rule_that_is_switched_off_is_found(
    make: Any, where: type, sound: str, planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`keeps_id` matters too rarely for that: test_election_rules.py plays it by hand."""
    monkeypatch.setattr(where, sound, planted)
    assert any(play(make(seed)).overlaps for seed in range(60))
