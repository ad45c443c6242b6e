"""What a run is to its links: what an election's outcome leads to, and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import pytest

from heliograph.cluster.record_log import Pair
from heliograph.cluster.standing import Permitted, Placed, Term
from heliograph.controller import link_ledgers, link_roles, role_words
from heliograph.controller.cells import Mark
from heliograph.controller.drivership import Active, Role, Seeking, Standby
from heliograph.controller.link_roles import Failed, LinkRoles, Prepared, RoleEvent, StoodDown
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.model.claims import Claim, Claimant, Claims
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, ConfigError
from heliograph.model.events import Event
from heliograph.model.ledger import LEDGER_TOPIC
from heliograph.model.occurrence_log import logged
from heliograph.model.partition import TopicPartition
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

from ..cluster.election_world import ALL, Run
from ..cluster.election_world import World as ElectionWorld
from .memory_logs import MemoryLog
from .observed import (
    LINK,
    NYC_ID,
    SF_ID,
    mirrored_sight,
    partition,
    snapshot,
    source_sight,
    source_topic,
    target_topic,
)
from .played import FakeClusters, FakeDrivership, Look, elected, observed, order

NAME = LINK.name
SOON_S = 5.0


@pytest.fixture(autouse=True)
def _as_if_nobody_asked_for_more(caplog: pytest.LogCaptureFixture) -> None:
    """Commands in other tests choose a level for good."""
    caplog.set_level("WARNING", logger="heliograph")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_roles, "TRY_AGAIN_S", 0.01)
    monkeypatch.setattr(role_words, "TOLD_AFTER_S", 0.05)


class Story:
    def __init__(self, *looks: Look, clusters: FakeClusters | None = None) -> None:
        self.clusters = clusters or FakeClusters(*looks or [observed()])
        self.events: list[RoleEvent] = []
        self.drivership = FakeDrivership(at_start=None)
        self.outbox = logged()
        self.roles = LinkRoles(
            self.clusters.made, {NAME: (SF_ID, NYC_ID)}, self.events.append, self.outbox, self.drivership.make
        )
        self.roles.start()

    def tell(self, role: Role) -> None:
        self.drivership.tell(NAME, role)

    async def until(self, count: int) -> list[RoleEvent]:
        async with asyncio.timeout(SOON_S):
            while len(self.events) < count:  # noqa: ASYNC110 - a list is no event
                await asyncio.sleep(0.005)
        return self.events

    async def elected(self, generation: int, member: str = "me") -> LinkRoles:
        """Ours and prepared: lanes were told to let go first."""
        before = len(self.events)
        self.tell(elected(generation, member))
        self.assert_prepared((await self.until(before + 2))[before:])
        return self.roles

    def assert_prepared(self, events: list[RoleEvent]) -> None:
        stood_down, prepared = events
        assert stood_down == StoodDown(NAME)
        assert isinstance(prepared, Prepared)

    async def quiet(self) -> list[RoleEvent]:
        await asyncio.sleep(0.1)
        return self.events


async def test_every_link_is_a_candidate_with_what_it_claims_and_between_which_clusters() -> None:
    played = Story()
    (candidate,) = played.drivership.candidates
    assert (candidate.claim, candidate.fingerprint) == (LINK.claim, LINK.fingerprint)
    assert candidate.pair == (NYC_ID, SF_ID)
    assert played.roles.roles == {NAME: Seeking()}
    assert not played.roles.standing_by


async def test_a_link_that_is_ours_is_let_go_by_lanes_first_and_then_prepared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="heliograph")

    played = Story(observed(3))
    played.tell(elected(4))
    assert played.events == [StoodDown(NAME)]  # before anything is asked of a cluster
    event = (await played.until(2))[-1]
    assert isinstance(event, Prepared)
    assert (event.link, len(event.todo.copies)) == (NAME, 3)
    assert played.roles.roles == {NAME: elected(4)}
    assert played.clusters.observed == [NAME]

    assert [getattr(r, "event", None) for r in caplog.records] == ["active"]


@pytest.mark.parametrize("generations", [(5, 6, 7), (4, 4), (4, 5, 5, 6)], ids=str)
async def test_a_link_that_is_the_same_members_again_in_this_generation_or_the_next_is_carried_on(
    generations: tuple[int, ...],
) -> None:
    played = Story()
    await played.elected(4)
    for generation in generations:
        played.tell(Seeking(problem="no heartbeat was answered"))
        played.tell(elected(generation))
    assert len(await played.quiet()) == 2
    assert played.clusters.observations == 1


@pytest.mark.parametrize(
    ("of_all", "of_link", "carried_on"),
    [(9, 4, True), (9, 5, True), (3, 4, False), (4, 6, False), (4, 3, False)],
)
async def test_a_generation_that_was_missed_matters_only_where_the_version_before_may_have_led_it(
    of_all: int, of_link: int, carried_on: bool
) -> None:
    played = Story()
    await played.elected(4)
    terms = (Term(generation=of_all, member="me"), Term(generation=of_link, member="me"))
    played.tell(Active(terms=terms))
    assert len(await played.quiet()) == (2 if carried_on else 4)


@pytest.mark.parametrize("generation", [1, 2, 3, 6, 9])
async def test_a_link_that_is_ours_again_in_any_other_generation_is_let_go_and_prepared_again(
    generation: int,
) -> None:
    """Another run may have been active in between; or the group was forgotten, and counts from the start."""

    played = Story()
    await played.elected(4)
    played.tell(Seeking())
    await played.elected(generation)


@pytest.mark.parametrize("generation", [4, 5])
async def test_a_link_that_is_ours_again_as_another_member_is_let_go_and_prepared_again(
    generation: int,
) -> None:
    """The group was forgotten meanwhile, and counted as far as before: others may have been active."""

    played = Story()
    await played.elected(4)
    played.tell(Seeking())
    await played.elected(generation, "me again")


TOPIC = "t"


def term_of(run: Run) -> Active | None:
    """What the run is to the topic's link, if it holds the topic."""
    if not run.holds(TOPIC) or ALL not in run.talks:
        return None
    placed, permitted = (run.membership(group).standing(run.world.now) for group in (ALL, "x"))
    assert isinstance(placed, Placed)
    assert isinstance(permitted, Permitted)
    return Active(terms=(placed.term, permitted.term), claims=placed.claims)


def foreign_terms(seed: int, carries_on: Callable[[Active, Active], bool]) -> list[str]:
    """Five minutes of runs over a bad network: where one carried on though another was active in between."""
    world = ElectionWorld(seed)
    for _ in range(3):
        world.add("x", Claim(link="x", topics=(TOPIC,)))
    if seed % 2:
        world.add("x", None)  # of the version before
    last: list[int] = []  # who was active
    terms: dict[int, Active] = {}
    found: list[str] = []
    carried: list[int] = []

    def look() -> None:
        for run in world.runs:
            if run.talks and ALL not in run.talks and run.holds(TOPIC):
                last[:] = [run.nth]
            term = term_of(run)
            if term is None:
                continue
            if run.nth in terms and term != terms[run.nth] and carries_on(terms[run.nth], term):
                carried.append(run.nth)
                if last != [run.nth]:
                    found.append(
                        f"seed {seed}: {terms[run.nth].terms}, {last}, {term.terms} at {world.now:.3f} s"
                    )
            terms[run.nth], last[:] = term, [run.nth]

    world.judge = look
    world.run_until(300)
    assert carried, "nobody ever carried on: the test shows nothing"
    return found


@pytest.mark.parametrize("seed", range(30))
def test_nobody_else_was_active_in_between_where_a_role_is_carried_on(seed: int) -> None:
    assert foreign_terms(seed, link_roles._carries_on) == []


def test_a_role_that_is_carried_on_too_far_is_found() -> None:
    assert any(foreign_terms(seed, lambda _before, _now: True) for seed in range(10))


async def test_a_link_that_another_run_drives_is_dropped_and_prepared_when_it_is_ours_again() -> None:
    played = Story()
    await played.elected(4)
    played.tell(Standby(active="host b, process 7"))
    assert played.events[2:] == [StoodDown(NAME, "host b, process 7")]
    assert played.roles.standing_by
    await played.elected(5)  # the very next one, and yet not ours before
    assert not played.roles.standing_by


def test_a_standby_says_who_is_active(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="heliograph")
    played = Story()
    played.tell(Standby(active="host b, process 7"))
    (record,) = caplog.records
    assert "stands by and takes over by itself; the active one is host b, process 7" in record.getMessage()
    assert getattr(record, "event", None) == "standby"


def test_a_standby_whose_active_run_has_another_config_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    Story().tell(Standby(active="host b, process 7", alike=False))
    (record,) = caplog.records
    assert (record.levelname, getattr(record, "event", None)) == ("WARNING", "other_config")
    assert "topics that only this run selects wait until then" in record.getMessage()


# -- topics that other runs hold


BOTH = snapshot(
    *(
        source_topic(name, [mirrored_sight(source_end=5, target_end=5, topic=name)])
        for name in ("orders", "pay")
    ),
    targets=[target_topic("orders"), target_topic("pay")],
)


def outcome(event: RoleEvent) -> tuple[set[str], dict[str, str]]:
    """Which topics are ours, and who holds the others."""
    assert isinstance(event, Prepared)
    left = {each.partition.target_topic: str(each.holder) for each in event.todo.left}
    return {copy.spec.partition.target_topic for copy in event.todo.copies}, left


async def test_of_a_link_that_others_share_only_the_rest_is_ours_and_it_is_said_who_has_what(
    caplog: pytest.LogCaptureFixture,
) -> None:
    played = Story(BOTH)
    played.tell(elected(4, claims=order("b")))
    assert outcome((await played.until(2))[1]) == ({"pay"}, {"orders": "b (pid 7), link theirs"})
    assert played.roles.roles == {NAME: elected(4, claims=order("b"))}
    (record,) = caplog.records
    assert getattr(record, "event", None) == "other_config"
    assert "1 of its target topics are held by b (pid 7), link theirs: orders" in record.getMessage()


async def test_a_link_whose_topics_are_all_held_by_others_stands_by_and_names_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="heliograph")
    played = Story(BOTH)
    played.tell(elected(4, claims=order("b", "c", topics="orders|pay")))
    assert outcome((await played.until(2))[1])[0] == set()
    assert played.roles.roles == {NAME: Standby(active="b (pid 7), link theirs")}
    (record,) = caplog.records
    assert getattr(record, "event", None) == "standby"
    assert "b (pid 7), link theirs" in record.getMessage()


async def test_a_link_behind_one_that_selects_the_same_under_any_name_stands_by_without_a_look() -> None:
    played = Story(BOTH)
    played.tell(elected(4, claims=order("b", topics=LINK.topics[0])))
    assert await played.quiet() == [StoodDown(NAME, "b (pid 7), link theirs")]
    assert played.roles.standing_by
    assert played.clusters.observations == 0
    played.tell(Seeking())
    played.tell(elected(5, claims=order("b", topics=LINK.topics[0])))
    assert played.roles.roles == {NAME: Standby(active="b (pid 7), link theirs")}
    assert len(await played.quiet()) == 1


@pytest.mark.parametrize("topics", ["orders", "orders|pay", LINK.topics[0]])
async def test_when_a_claim_in_front_goes_the_link_is_withdrawn_and_prepared_with_what_it_gains(
    topics: str,
) -> None:
    played = Story(BOTH)
    played.tell(elected(4, claims=order("b", topics=topics)))
    before = len(await played.quiet())
    played.tell(elected(5, claims=order()))
    assert played.events[before:] == [StoodDown(NAME)]
    assert outcome((await played.until(before + 2))[-1]) == ({"orders", "pay"}, {})
    assert played.roles.roles == {NAME: elected(5, claims=order())}


@pytest.mark.parametrize(("before", "after"), [("bc", "b"), ("", ""), ("b", "b")])
async def test_what_changes_no_holder_of_ours_disturbs_nobody(before: str, after: str) -> None:
    """The run that is gone came behind another one that claims the same; or nobody in front has changed."""
    played = Story(BOTH)
    played.tell(elected(4, claims=order(*before)))
    assert len(await played.quiet()) == 2
    claims = order(*after)
    late = Claimant(member="z", seniority=10, host="z", pid=1, claims=(LINK.claim,))
    played.tell(elected(5, claims=Claims(claimants=(*claims.claimants, late))))
    assert len(await played.quiet()) == 2
    assert played.clusters.observations == 1


async def test_a_holder_that_another_one_follows_is_named_anew() -> None:
    played = Story(BOTH)
    played.tell(elected(4, claims=order("b", "c")))
    await played.until(2)
    gone = Claims(claimants=order("b", "c").claimants[1:])
    played.tell(elected(5, claims=gone))
    assert outcome((await played.until(4))[-1]) == ({"pay"}, {"orders": "c (pid 7), link theirs"})


async def test_a_claim_that_comes_in_front_though_it_never_should_withdraws_the_link() -> None:
    played = Story(BOTH)
    played.tell(elected(4, claims=order()))
    await played.until(2)
    played.roles.grant(NAME)
    played.tell(elected(5, claims=order("b")))
    assert granted_of(played) == 0.0
    assert outcome((await played.until(4))[-1]) == ({"pay"}, {"orders": "b (pid 7), link theirs"})


async def test_claims_that_change_while_a_link_is_prepared_begin_that_anew() -> None:
    clusters = SlowClusters()
    played = Story(clusters=clusters)
    played.tell(elected(1, claims=order("b", topics="orders.*")))
    await asyncio.sleep(0.02)
    played.tell(elected(2, claims=order()))
    clusters.go_on.set()
    assert outcome((await played.until(3))[-1]) == ({"orders"}, {})
    assert len(await played.quiet()) == 3


async def test_a_topic_deleted_under_the_run_is_not_made_again_when_the_link_is_ours_again() -> None:
    played = Story(observed(2), snapshot(source_topic(sights=[source_sight(0, 10)] * 2)))
    await played.elected(4)
    played.tell(Standby(active=None))
    await played.elected(6, "me again")
    event = played.events[-1]
    assert isinstance(event, Prepared)
    assert (event.todo.copies, event.todo.creations) == ((), ())
    assert [refusal.why.reason for refusal in event.todo.refusals] == [StopReason.RECREATED] * 2


async def test_an_election_whose_trouble_lasts_is_told_once_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    played = Story()
    await played.elected(1)
    played.tell(Seeking(problem="the coordinator is away"))
    assert caplog.records == []
    assert len(await played.quiet()) == 2
    await played.quiet()

    (record,) = caplog.records
    assert "the coordinator is away" in record.getMessage()
    assert getattr(record, "event", None) == "election"


async def test_trouble_whose_words_change_all_the_time_is_told_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    played = Story()
    for nth in range(20):
        played.tell(Seeking(problem=f"broker {nth % 3} is away"))
        await asyncio.sleep(0.01)

    assert 1 <= len(caplog.records) <= 4


@pytest.mark.parametrize("then", [elected(2), Standby(active=None), Seeking()], ids=str)
async def test_trouble_of_an_election_that_is_over_in_a_moment_is_not_told(
    then: Role, caplog: pytest.LogCaptureFixture
) -> None:
    played = Story()
    played.tell(Seeking(problem="the coordinator is being made"))
    played.tell(then)
    await played.quiet()

    assert caplog.records == []


async def test_nothing_is_told_of_an_election_after_the_end(caplog: pytest.LogCaptureFixture) -> None:
    played = Story()
    played.tell(Seeking(problem="the coordinator is away"))
    await played.roles.aclose()
    await played.quiet()

    assert caplog.records == []


# -- preparation


async def test_a_cluster_that_is_away_when_a_link_is_prepared_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = ClusterUnreachable("sf is away")
    played = Story(away, away, observed())
    await played.elected(2)
    assert played.clusters.observations == 3

    assert caplog.text.count("sf is away") == 2
    assert {getattr(r, "event", None) for r in caplog.records} == {"cluster_away"}


async def test_a_preparation_that_no_further_try_mends_is_told_as_failed() -> None:
    problem = ConfigError(["links: topic orders would be mirrored in a circle"])
    played = Story(problem)
    played.tell(elected(2))
    assert await played.until(2) == [StoodDown(NAME), Failed(problem)]
    assert len(await played.quiet()) == 2
    assert played.clusters.observations == 1


class SlowClusters(FakeClusters):
    """The first observation takes until it is told to end."""

    def __init__(self) -> None:
        super().__init__(observed())
        self.go_on = asyncio.Event()

    async def observe_link(self, name: str, only: Collection[str] | None = None) -> LinkSnapshot:
        first = not self.observations
        found = await super().observe_link(name, only)
        if first:
            await self.go_on.wait()
        return found


@pytest.mark.parametrize("between", [Standby(active=None), Seeking()])
async def test_a_preparation_of_an_earlier_generation_is_never_told(between: Role) -> None:
    """What it has seen may be out of date: somebody else was active since."""

    clusters = SlowClusters()
    played = Story(clusters=clusters)
    played.tell(elected(1))
    await asyncio.sleep(0.02)
    played.tell(between)
    played.tell(elected(3))
    await asyncio.sleep(0.02)
    clusters.go_on.set()
    assert len([e for e in await played.quiet() if isinstance(e, Prepared)]) == 1
    played.assert_prepared(played.events[-2:])


async def test_a_preparation_goes_on_while_the_role_is_carried_on() -> None:
    clusters = SlowClusters()
    played = Story(clusters=clusters)
    played.tell(elected(1))
    await asyncio.sleep(0.02)
    played.tell(elected(2))
    clusters.go_on.set()
    played.assert_prepared(await played.until(2))
    assert clusters.observations == 1  # nobody else was active since


async def test_a_link_that_another_run_drives_meanwhile_is_not_told_as_prepared() -> None:
    clusters = SlowClusters()
    played = Story(clusters=clusters)
    played.tell(elected(1))
    await asyncio.sleep(0.02)
    played.tell(Standby(active=None))
    clusters.go_on.set()
    assert await played.quiet() == [StoodDown(NAME), StoodDown(NAME)]


# -- the end


@pytest.mark.parametrize("leave", [True, False])
async def test_stepping_down_ends_preparations_and_elections(leave: bool) -> None:
    clusters = SlowClusters()
    played = Story(clusters=clusters)
    played.tell(elected(1))
    await asyncio.sleep(0.02)
    await played.roles.aclose(leave=leave)
    clusters.go_on.set()
    assert await played.quiet() == [StoodDown(NAME)]
    assert played.drivership.closed == [leave]


# -- what lanes may be granted


WITHDRAWING = [Standby(active=None), elected(6), elected(4, "me again")]


def granted_of(played: Story) -> float:
    played.drivership.granted = {NAME: 3.5}
    return played.roles.grants()[NAME]


async def test_nothing_is_granted_before_lanes_have_let_go_though_the_link_is_ours() -> None:
    played = Story()
    assert granted_of(played) == 0.0
    await played.elected(4)
    assert granted_of(played) == 0.0
    played.roles.grant(NAME)
    assert granted_of(played) == 3.5


@pytest.mark.parametrize("generation", [4, 5])
async def test_what_is_granted_stays_so_while_the_role_is_carried_on(generation: int) -> None:
    played = Story()
    (await played.elected(4)).grant(NAME)
    played.tell(Seeking(problem="no heartbeat was answered"))
    assert granted_of(played) == 3.5  # as long as the election itself says
    played.tell(elected(generation))
    assert granted_of(played) == 3.5


@pytest.mark.parametrize("role", WITHDRAWING, ids=["another run", "anew", "another member"])
async def test_nothing_is_granted_from_the_moment_that_others_may_have_been_active(role: Role) -> None:
    played = Story()
    (await played.elected(4)).grant(NAME)
    played.tell(role)
    assert granted_of(played) == 0.0
    assert played.events[-1] == StoodDown(NAME)


@pytest.mark.parametrize("role", WITHDRAWING, ids=["another run", "anew", "another member"])
async def test_a_link_that_was_withdrawn_since_it_was_prepared_is_not_granted(role: Role) -> None:
    """Whoever heard late that it was prepared grants it late: the events are queued."""

    played = Story()
    roles = await played.elected(4)
    played.tell(role)
    roles.grant(NAME)
    assert granted_of(played) == 0.0


async def test_a_link_is_granted_alone() -> None:
    played = Story()
    (await played.elected(4)).grant(NAME)
    played.drivership.granted = {NAME: 3.5, "sf-to-lax": 6.0}
    assert played.roles.grants() == {NAME: 3.5, "sf-to-lax": 0.0}


# -- marks of a clean stop


def committed(played: Story) -> str:
    return played.drivership.group.committed[TopicPartition("orders", 0)].text


async def marked(played: Story) -> bool:
    await played.roles.leave_marks({partition(): Mark(5, 0.0)})
    return "clean" in committed(played)


async def test_a_link_that_is_ours_is_left_with_marks() -> None:
    played = Story()
    roles = await played.elected(4)
    assert not await marked(played)  # no lane was given any of it
    roles.grant(NAME)
    assert await marked(played)


async def test_a_link_that_was_withdrawn_and_prepared_again_is_left_without_marks() -> None:
    """Lanes have ended meanwhile: what the board says is of before, and others may have held it since."""
    played = Story()
    (await played.elected(4)).grant(NAME)
    await played.elected(7, "me again")
    assert not await marked(played)


async def test_who_came_back_as_another_member_and_seeks_still_leaves_no_marks() -> None:
    """A member of the group of claims again, behind others maybe; the link's own group has not answered."""
    played = Story()
    (await played.elected(4)).grant(NAME)
    played.tell(Seeking(problem="no heartbeat was answered"))
    played.drivership.group.standing = Placed(term=Term(generation=5, member="me again"), claims=Claims())
    assert not await marked(played)


async def test_a_link_is_held_as_long_as_it_is_granted_and_leased() -> None:
    played = Story()
    roles = await played.elected(4)
    played.drivership.granted = {NAME: 3.0}
    assert not roles.holds(NAME)
    roles.grant(NAME)
    assert roles.holds(NAME)
    played.drivership.granted = {NAME: 0.0}
    assert not roles.holds(NAME)
    played.drivership.granted = {NAME: 3.0}
    played.tell(Standby(active="there (pid 7)"))
    assert not roles.holds(NAME)


class Unwritable(MemoryLog):
    """`code`: what every append is refused with."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__()
        self.code = code

    async def append(self, records: Sequence[Pair]) -> None:  # noqa: ARG002
        raise BrokerRefused("nothing is taken", code=self.code)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_ENOUGH_REPLICAS])
async def test_a_ledger_that_takes_no_rows_stops_no_link(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    monkeypatch.setattr(link_ledgers, "AWAY_LIMIT_S", 0.0)
    played = Story()
    played.clusters.logs.logs[LEDGER_TOPIC] = Unwritable(code)
    await played.elected(4)
    assert played.outbox.counts[Event.NO_LEDGER] == 1
