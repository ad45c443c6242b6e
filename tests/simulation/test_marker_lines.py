"""WriteTxnMarkers and DeleteRecords over a world's network: interleaved, refused in part, late, lost, denied."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from heliograph.cluster.markers import Marker
from heliograph.model.errors import BrokerRefused, Disconnected, RequestTimedOut
from heliograph.model.marker_label import MarkerLabel
from heliograph.wire.error_codes import ErrorCode

from .by_hand import ByHand, label
from .gap_plan import Gaps
from .sim_target import SimTarget
from .virtual_loop import Process

MANY = 30


def yes() -> bool:
    return True


def marks(hand: ByHand, *labels: MarkerLabel) -> list[Marker]:
    return [Marker(hand.where, each) for each in labels]


async def bulk(hand: ByHand, port: SimTarget, first: int, count: int, attempt: int) -> Any:
    await port.refresh()
    wanted = marks(hand, *(label(at, attempt) for at in range(first, first + count)))
    return await port.write_markers(hand.node, wanted, yes)


async def fill(hand: ByHand, port: SimTarget, attempts: list[int], *, crossing: bool = True) -> int:
    """One marker at a time, until the log ends where the gap does; whoever meets trouble takes a new attempt."""
    sent = 0
    await port.refresh()
    while (end := (await port.span(hand.where)).end) < MANY:
        said = label(end, attempts[0]) if crossing else MarkerLabel(0x4900 << 48, 0, 0)
        sent += 1
        try:
            errors = await port.write_markers(hand.node, marks(hand, said), yes)
        except (Disconnected, RequestTimedOut):
            attempts.pop(0)
        else:
            if ErrorCode.INVALID_PRODUCER_EPOCH in errors.values():
                attempts.pop(0)
    return sent


def world_of_gaps(seed: int, **how: Any) -> ByHand:
    return ByHand(transactions="all aborted", seed=seed, **how)


def race(hand: ByHand, *, crossing: bool) -> int:
    """How many markers were sent."""
    works: list[tuple[Process, Any]] = []
    for nth in range(3):
        process, _, port = hand.hand(f"filler {nth}")
        attempts = list(range(nth, 8_000, 3))  # no attempt is of two
        works.append((process, fill(hand, port, attempts, crossing=crossing)))
    return sum(hand.play(*works))


def test_racing_fillers_with_crossing_epochs_fill_a_gap_exactly() -> None:
    for seed in range(30):
        hand = world_of_gaps(seed, late=0.1)
        assert race(hand, crossing=True) > MANY, "nobody lost a race"
        hand.wait(30.0)  # what is late comes, and is refused
        assert hand.end == MANY


def test_racing_fillers_with_one_epoch_fill_too_much() -> None:
    ends = set()
    for seed in range(30):
        hand = world_of_gaps(seed, late=0.1)
        race(hand, crossing=False)
        hand.wait(30.0)
        ends.add(hand.end)
    assert max(ends) > MANY


def test_markers_of_two_requests_get_between_each_other() -> None:
    errors, mixed = set(), 0
    for seed in range(20):
        hand = world_of_gaps(seed)
        (one, _, port), (other, _, another) = hand.hand("one"), hand.hand("other")
        works = (one, bulk(hand, port, 0, 20, 1)), (other, bulk(hand, another, 0, 20, 2))
        errors |= {error for answer in hand.play(*works) for error in answer.values()}
        assert hand.log.markers == hand.end == 20
        mixed += len({each.header.producer_epoch for each in hand.partition.leader_replica.batches}) == 2
    fenced = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert errors == {ErrorCode.NONE, *fenced}
    assert mixed > 0


def test_a_marker_is_refused_while_the_next_one_is_taken_and_the_answer_does_not_say() -> None:
    found = 0
    for seed in range(20):
        hand = world_of_gaps(seed, brokers=3, min_insync=2, gaps=Gaps(marks_refused=0.2))
        process, _, port = hand.hand()
        ((pair, error),) = hand.play((process, bulk(hand, port, 0, 10, 1)))[0].items()
        assert pair == (hand.where, label(0).producer_id)
        found += error == ErrorCode.NONE and hand.end < 10
    assert found > 3


def test_without_the_right_nothing_is_written() -> None:
    hand = world_of_gaps(0, gaps=Gaps(may_mark=False))
    process, _, port = hand.hand()
    with pytest.raises(BrokerRefused) as refused:
        hand.play((process, bulk(hand, port, 0, 3, 0)))
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert hand.end == 0


def test_a_permit_that_says_no_ends_the_line_and_nothing_leaves() -> None:
    hand = world_of_gaps(0)
    process, _, port = hand.hand()

    async def forbidden() -> None:
        await port.refresh()
        await port.write_markers(hand.node, marks(hand, label(0)), lambda: False)

    with pytest.raises(Disconnected):
        hand.play((process, forbidden()))
    hand.wait(40.0)
    assert hand.end == 0


def test_what_was_sent_may_be_executed_though_its_connection_is_closed() -> None:
    ends = set()
    for seed in range(20):
        hand = world_of_gaps(seed, late=1.0)
        process, _, port = hand.hand()

        async def give_up(hand: ByHand, port: SimTarget) -> int:
            sending = asyncio.ensure_future(bulk(hand, port, 0, 3, 0))
            await asyncio.sleep(1.0)
            for line in port.marker_lines.values():
                line.broke()
            await asyncio.gather(sending, return_exceptions=True)
            return hand.end

        (end,) = hand.play((process, give_up(hand, port)))
        hand.wait(40.0)
        ends.add((end, hand.end))
    assert ends >= {(0, 0), (0, 3)}


def test_a_request_whose_last_marker_has_no_partition_is_never_answered() -> None:
    hand = world_of_gaps(0)
    gone = hand.where._replace(topic=hand.world.judges[-1].key.target_topic)
    hand.world.clusters["nyc"].topics[gone.topic].delete()
    here, nowhere = Marker(hand.where, label(0)), Marker(gone, label(0))
    process, _, port = hand.hand()

    async def ask(*asked: Marker) -> Any:
        await port.refresh()
        return await port.write_markers(hand.node, asked, yes)

    (errors,) = hand.play((process, ask(nowhere, here)))
    assert set(errors.values()) == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    with pytest.raises(RequestTimedOut):
        hand.play((process, ask(here._replace(label=label(1)), nowhere)))
    assert hand.end == 2


def test_a_deletion_is_answered_when_the_followers_have_done_it() -> None:
    hand = ByHand(log_start=7, brokers=3)
    process, _, port = hand.hand()
    hand.fill(7)
    hand.wait(1.0)
    follower = next(node for node in hand.partition.replicas if node != hand.node)
    hand.log.lagging.add(follower)

    async def delete() -> None:
        await port.refresh()
        await port.delete_records(hand.where, 7)

    with pytest.raises(BrokerRefused) as refused:
        hand.play((process, delete()))
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert hand.partition.leader_replica.start == 7
    hand.log.catch_up(follower)
    hand.play((process, delete()))
    assert {replica.start for replica in hand.partition.replicas.values()} == {7}


def test_committed_batches_come_with_what_was_aborted() -> None:
    hand = ByHand(transactions="some aborted")
    process, source, _ = hand.hand()

    async def read() -> Any:
        await source.refresh()
        return await source.batches_in(hand.where, 0, hand.source.readable_end, committed=True)

    (found,) = hand.play((process, read()))
    assert [header.base_offset for header in found.headers] == [
        stored.header.base_offset for stored in hand.source.log
    ]
