"""The copier in a world of faults (P1 to P4, P6): many seeds are judged right, and each planted bug is found."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from .model_broker import ModelPartition, Waiting
from .model_topic import ModelTopic
from .plan import Plan, plan_of
from .planted import BUGS, Planted, find, mixed, mixed_and_given_up
from .requests import Produce
from .source_content import EPOCH_MS
from .world import run_plan, run_seed

SEEDS = 2_000
LIMIT_S = 60.0


def test_the_copy_is_exact_or_loudly_stopped_in_two_thousand_worlds() -> None:
    began_s = time.process_time()
    wrong = [verdict for verdict in map(run_seed, range(SEEDS)) if verdict.wrong]
    assert not wrong, "\n".join(f"{verdict.command}    # {verdict.wrong}" for verdict in wrong)
    assert time.process_time() - began_s < LIMIT_S


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"rule {bug.rule}")
def test_a_rule_switched_off_is_found(bug: Planted) -> None:
    assert find(bug) is not None, f"nobody notices that {bug.without}"


@pytest.mark.parametrize("change", [mixed_and_given_up, partial(mixed, drivers=1), partial(mixed, drivers=2)])
def test_plans_that_meet_what_is_rare_are_right_with_every_rule(change: Callable[[Plan], Plan]) -> None:
    wrong = [verdict for seed in range(60) if (verdict := run_plan(change(plan_of(seed)))).wrong]
    assert not wrong, wrong


def test_a_seed_tells_the_same_story_again() -> None:
    for seed in (3, 14, 159):
        first: list[str] = []
        second: list[str] = []
        assert run_seed(seed, first.append) == run_seed(seed, second.append)
        assert first == second


def test_the_seeds_meet_every_kind_of_fault() -> None:
    met = {kind for seed in range(SEEDS) for _, kind in plan_of(seed).faults}
    assert len(met) == 25


def test_an_append_by_id_never_reaches_a_recreated_topic() -> None:
    topic = ModelTopic(lambda topic_id: ModelPartition(topic_id, now_ms=lambda: EPOCH_MS))
    batch = memoryview(Produce().batch(EPOCH_MS))
    topic.delete()
    assert topic.produce(1, batch) == (3, -1)
    topic.create()
    assert topic.produce(1, batch, "id-1") == (100, -1)
    assert isinstance(topic.produce(1, batch), Waiting)
