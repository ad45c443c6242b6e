"""The real lanes and drivers in a world of faults (P1 to P4, P6): many seeds are judged right, and each planted bug is
found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import count, islice

import pytest

from .answers import Waiting
from .faults import Faults
from .gap_plan import IN_RANDOM_PLANS, LOUD_FAULTS, QUIET_FAULTS
from .many import FLOORS, in_words, lost_races, merged_in, run_many, too_small
from .model_broker import ModelPartition
from .model_topic import ModelTopic
from .plan import plan_of
from .planted import BUGS, find
from .planted_bug import Planted
from .requests import Produce
from .source_content import EPOCH_MS
from .world import Verdict, World, run_plan, run_seed

# What CI has time for; `--slow` judges the thousand behind them.
SEEDS, MORE_SEEDS = range(200), range(200, 1_200)
RARE_PLANS, MORE_RARE_PLANS = range(1), range(1, 4)  # of each kind
LEAST_MERGED = 0.4  # the plan lets lanes merge in about half of the worlds
LEAST_OPERATED = 0.2  # an operator is in about a third of them
MOST_EXCUSED = 0.005


def test_the_copy_is_exact_or_loudly_stopped_in_hundreds_of_worlds() -> None:
    judge_worlds(SEEDS)


@pytest.mark.slow
def test_the_copy_is_exact_or_loudly_stopped_in_a_thousand_worlds() -> None:
    judge_worlds(MORE_SEEDS)


def judge_worlds(seeds: range) -> None:
    verdicts = list(run_many(seeds))
    words = in_words(verdicts)
    sys.stdout.write(words + "\n")
    wrong = [verdict for verdict in verdicts if verdict.wrong]
    assert not wrong, "\n".join(f"{verdict.command}    # {verdict.wrong}" for verdict in wrong)
    assert sum(verdict.excused for verdict in verdicts) <= MOST_EXCUSED * len(seeds), words
    small = [f"{verdict.command}    # {verdict.met}" for verdict in verdicts if too_small(verdict)]
    assert not small, f"less than {FLOORS}:\n" + "\n".join(small)
    assert merged_in(verdicts) > LEAST_MERGED * len(seeds), words
    assert not merged_in([verdict for verdict in verdicts if not verdict.plan.merging.happens])
    assert lost_races(verdicts) > 0, words
    assert sum(bool(verdict.plan.acts) for verdict in verdicts) > LEAST_OPERATED * len(seeds), words


def test_a_world_that_meets_less_than_a_floor_is_too_small() -> None:
    verdict = run_seed(0)
    assert not too_small(verdict._replace(met=FLOORS))
    for name, floor in FLOORS._asdict().items():
        assert too_small(verdict._replace(met=FLOORS._replace(**{name: floor - 1})))


Findings = dict[int, Future[Verdict | None]]


def _find(nth: int) -> Verdict | None:
    return find(BUGS[nth])


@pytest.fixture(scope="module")
def findings(request: pytest.FixtureRequest) -> Iterator[Findings]:
    """Of all bugs that were asked for, over all cores."""
    tests = [item for item in request.session.items if getattr(item, "originalname", "") == LOOKS]
    wanted: list[int] = [item.callspec.params["nth"] for item in tests]  # type: ignore[attr-defined]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield {nth: pool.submit(_find, nth) for nth in wanted}


@pytest.mark.parametrize("nth", range(len(BUGS)), ids=lambda nth: f"rule {BUGS[nth].rule}")
def test_a_rule_switched_off_is_found(nth: int, findings: Findings) -> None:
    assert findings[nth].result() is not None, f"nobody notices that {BUGS[nth].without}"


LOOKS = test_a_rule_switched_off_is_found.__name__


def once_for_each_kind_of_plan() -> list[Planted]:
    """Of bugs that are met in the same plans the first."""
    bugs: dict[object, Planted] = {}
    for bug in BUGS:
        if bug.patches():
            bugs.setdefault((bug.change, bug.meets), bug)
    return list(bugs.values())


@pytest.mark.parametrize("bug", once_for_each_kind_of_plan(), ids=lambda bug: f"rule {bug.rule}")
def test_plans_that_meet_what_is_rare_are_right_with_every_rule(bug: Planted) -> None:
    judge_rare(bug, RARE_PLANS)


@pytest.mark.slow
@pytest.mark.parametrize("bug", once_for_each_kind_of_plan(), ids=lambda bug: f"rule {bug.rule}")
def test_more_plans_that_meet_what_is_rare_are_right_with_every_rule(bug: Planted) -> None:
    judge_rare(bug, MORE_RARE_PLANS)


def judge_rare(bug: Planted, nth: range) -> None:
    plans = islice(filter(bug.meets, map(plan_of, count())), nth.start, nth.stop)
    wrong = [verdict for plan in plans if (verdict := run_plan(bug.change(plan))).wrong]
    assert not wrong, wrong


def test_a_seed_tells_the_same_story_again() -> None:
    for seed in (3, 4, 14, 159):
        first: list[str] = []
        second: list[str] = []
        assert run_seed(seed, first.append) == run_seed(seed, second.append)
        assert first == second


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    """Whatever Python's hashes are there."""

    def told(hashes: str) -> str:
        command = [sys.executable, "-m", "tests.simulation", "--seed", "5"]
        return subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": hashes}, capture_output=True, text=True, check=True
        ).stdout

    assert told("1") == told("2")


def test_the_seeds_meet_every_kind_of_fault() -> None:
    """Those that come with gaps as soon as plans have some."""
    met = {kind for seed in SEEDS for _, kind in plan_of(seed).faults}
    of_gaps = set() if IN_RANDOM_PLANS else {*QUIET_FAULTS, *LOUD_FAULTS}
    assert met == Faults(World(plan_of(0))).kinds - of_gaps


def test_an_append_by_id_never_reaches_a_recreated_topic() -> None:
    topic = ModelTopic(lambda topic_id: ModelPartition(topic_id, now_ms=lambda: EPOCH_MS))
    batch = memoryview(Produce().batch(EPOCH_MS))
    topic.delete()
    assert topic.produce(1, batch) == (3, -1)
    topic.create()
    assert topic.produce(1, batch, "id-1") == (100, -1)
    assert isinstance(topic.produce(1, batch), Waiting)
