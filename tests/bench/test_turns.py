"""Who runs when in a benchmark."""

from __future__ import annotations

from bench.franz_go import FranzGo
from bench.mirror_maker import MirrorMaker
from bench.plain_lane import PlainLane
from bench.turns import turns

THREE = (MirrorMaker(), FranzGo(), PlainLane())


def test_in_three_rounds_each_of_three_contenders_is_first_once() -> None:
    taken = [turn for turn in turns(THREE, rounds=3, warm_ups=1) if turn.counts]
    rounds = [[turn.contender.code for turn in taken if turn.number == number] for number in (1, 2, 3)]
    assert rounds == [["franz", "plain", "mm2"], ["plain", "mm2", "franz"], ["mm2", "franz", "plain"]]


def test_no_two_turns_on_the_same_clusters_write_to_the_same_topic() -> None:
    labels = [turn.label for turn in turns(THREE, rounds=3, warm_ups=2)]
    assert len(labels) == len(set(labels)) == 15
