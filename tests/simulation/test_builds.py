"""Compacted topics in worlds of faults: their targets are built, by whole runs and lanes, whoever is killed or late
meanwhile; in the end they hold the source's records at their offsets, and no broker a filler."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heliograph.controller.build_settings import phase_of

from .build_plans import built, built_and_overtaken, built_from_above, built_late, built_while_it_grows
from .plan import Plan, plan_of
from .world import World

PLANS = [built, built_late, built_from_above, built_and_overtaken, built_while_it_grows]


@pytest.mark.parametrize("change", PLANS)
def test_compacted_topics_are_built_whatever_happens(change: Callable[[Plan], Plan]) -> None:
    judge(change, range(8))


@pytest.mark.slow
@pytest.mark.parametrize("change", PLANS)
def test_compacted_topics_are_built_whatever_else_happens(change: Callable[[Plan], Plan]) -> None:
    judge(change, range(8, 150))


def judge(change: Callable[[Plan], Plan], seeds: range) -> None:
    for seed in seeds:
        world = World(change(plan_of(seed)))
        wrong = world.run()
        assert not wrong, f"{change.__name__}, seed {seed}: {wrong}"
        for topic in world.clusters["nyc"].topics.values():
            assert topic.is_compacted, f"{change.__name__}, seed {seed}: {topic.name} is not built"
            assert phase_of(topic.settings) is None
