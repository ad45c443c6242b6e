"""The sources of a world: what a consumer reads of them is what the judge expects, though neither knows the other."""

from __future__ import annotations

import pytest

from .by_hand import LIMIT_S, ByHand
from .consumer_view import view_of
from .gap_plan import Gaps
from .plan import Rhythm
from .replica import Stored
from .source_fate import SourceFate
from .source_transactions import HOLDER, STYLES

GROWING = Rhythm(present=3, count=2, every_s=1.0)


def grown(style: str, seed: int, **how: object) -> ByHand:
    return ByHand(transactions=style, seed=seed, rhythm=GROWING, **how)


def log_of(hand: ByHand) -> list[Stored]:
    return list(hand.source.log)


@pytest.mark.parametrize("index_bytes", [0, 300, 4096])
@pytest.mark.parametrize("style", STYLES)
def test_what_consumers_read_is_what_the_judge_expects_at_every_moment(style: str, index_bytes: int) -> None:
    for seed in range(4):
        hand = grown(style, seed, gaps=Gaps(index_bytes=index_bytes))
        partition, fate = hand.source.partition, SourceFate(hand.source)
        assert partition is not None
        while not hand.source.complete:
            fate.look()
            stable_end = partition.leader_replica.stable_end
            wanted = {at for at in range(stable_end) if fate.now(at)}
            assert view_of(partition, committed=True).keys() == wanted, (style, seed, hand.world.now)
            assert all(fate.now(at) is not None for at in range(stable_end))
            hand.wait(3.0)


@pytest.mark.parametrize("style", STYLES)
def test_every_style_has_what_it_promises(style: str) -> None:
    hands = [grown(style, seed) for seed in range(4)]
    for hand in hands:
        hand.wait(LIMIT_S / 2)
    logs = [log_of(hand) for hand in hands]
    in_transactions = {
        each.header.producer_id for log in logs for each in log if each.header.is_transactional
    }
    plain = any(not each.header.is_transactional for log in logs for each in log)
    assert plain is (STYLES[style].plain > 0)
    assert {*STYLES[style].producers} <= in_transactions
    assert (HOLDER in in_transactions) is bool(STYLES[style].held_s or STYLES[style].for_ever)
    assert all(hand.source.complete for hand in hands)
    assert all(hand.source.hangs is STYLES[style].for_ever for hand in hands)


def test_a_transaction_that_is_held_open_holds_what_can_be_read() -> None:
    hand = grown("one held open", 1)
    hand.wait(12.0)
    held = next(each for each in log_of(hand) if each.header.producer_id == HOLDER)
    assert hand.source.readable_end == held.header.base_offset < hand.source.log[-1].header.base_offset
    hand.wait(60.0)
    assert hand.source.readable_end == hand.source.log[-1].header.next_offset


def test_a_transaction_that_a_cut_opens_again_ends_as_it_did() -> None:
    for seed in range(20):
        hand = grown("some aborted", seed)
        hand.wait(30.0)
        fate = SourceFate(hand.source)
        fate.look()
        before = {at: fate.now(at) for at in range(hand.source.readable_end)}
        hand.source.on_cut = fate.change
        hand.source.cut(0.5, regrows=False)
        kept = hand.source.log[-1].header.next_offset
        hand.wait(60.0)
        again = SourceFate(hand.source)
        again.look()
        assert {at: again.now(at) for at in range(kept)} == {at: before[at] for at in range(kept)}


def test_logs_that_start_above_0_have_nothing_before() -> None:
    hand = ByHand(log_start=40, present=0)
    assert (hand.source.start, hand.source.readable_end) == (40, 40)
    hand.wait(LIMIT_S + 1)
    assert hand.source.log[0].header.base_offset == 40
