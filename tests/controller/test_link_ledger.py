"""What is recorded of a link: in order, tried again, under its term; and which stops are worth a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from heliograph.controller import link_ledger
from heliograph.controller.at_first import AtFirst
from heliograph.controller.followed_configs import Followed, read_followed
from heliograph.controller.ledger import Ledger
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.plan import RefusePartition
from heliograph.controller.recorded_plan import gone_since, paused_by, refuse_by_ledger
from heliograph.controller.recorded_stops import rows_of_stops, stops_met
from heliograph.controller.snapshot import PartitionSight
from heliograph.controller.topic_config import FORCED
from heliograph.model.admission import Refused
from heliograph.model.clock import time_of_day
from heliograph.model.command import Command, Outcome, Subject, Wish
from heliograph.model.errors import Disconnected
from heliograph.model.hints import RESUME_TOPIC
from heliograph.model.ledger import LEDGER_TOPIC, WHOLE_TOPIC, LedgerState, RowKind, decode_row
from heliograph.model.occurrence import of_stop
from heliograph.model.partition import TopicPartition
from heliograph.model.states import StopReason

from .memory_logs import MemoryLogs
from .observed import LINK, SF_ID, partition, refusal, source_sight, source_topic, span, target_topic

ORDERS = TopicPartition("orders", 0)
HERE, BEFORE = "id of the topic", "id of the one before"
STOP = refusal(partition()).why


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_ledger, "AGAIN_S", 0.01)


async def opened(logs: MemoryLogs | None = None, *, target_id: str = HERE) -> LinkLedger:
    ledger = Ledger(logs or MemoryLogs())
    await ledger.open()
    return LinkLedger(ledger, LINK.name, SF_ID, lambda _topic: target_id)


def command(wish: Wish = Wish.PAUSE, number: int = 0, topic_id: str = HERE) -> Command:
    subject = Subject(source_cluster_id=SF_ID, target_topic="orders", partition=number)
    return Command(
        id="1", wish=wish, subject=subject, at=time_of_day(), author="ann@desk", target_topic_id=topic_id
    )


async def commanded(ledger: LinkLedger, wanted: Command) -> None:
    await ledger.ledger.command([wanted])
    await ledger.ledger.catch_up()


async def test_what_is_recorded_is_written_in_order_and_again_while_the_target_is_away() -> None:
    logs = MemoryLogs()
    ledger = await opened(logs)
    log = logs.logs[LEDGER_TOPIC]
    log.fails = [Disconnected("gone"), Disconnected("gone")]
    for number in range(5):
        ledger.record([ledger.of_begin(TopicPartition("orders", number), number, "latest", "src")])
    await ledger.write([ledger.of_begin(ORDERS, 5, "latest", "src")])  # behind what is recorded
    rows = [decode_row(record.key or b"", record.value) for record in log.records]
    assert [(row.fields or {})["goal"] for row in rows if row] == [0, 1, 2, 3, 4, 5]
    assert ledger.recorded.begin(ORDERS, "src", "latest") == 5


async def test_an_end_waits_for_what_is_recorded_but_not_for_ever() -> None:
    logs = MemoryLogs()
    ledger = await opened(logs)
    ledger.record([ledger.of_gaps(ORDERS)])
    await ledger.aclose(1.0)
    assert len(logs.logs[LEDGER_TOPIC].records) == 1
    logs.logs[LEDGER_TOPIC].fails = [Disconnected("gone")] * 100
    ledger.record([ledger.of_gaps(ORDERS)])
    await ledger.aclose(0.02)
    assert len(logs.logs[LEDGER_TOPIC].records) == 1


async def test_rows_of_a_topic_are_carried_on_under_the_term_and_those_of_links_are_left() -> None:
    ledger = await opened()
    await ledger.write([ledger.of_gaps(ORDERS), ledger.of_topic("orders", "orders", "src")])
    await ledger.write(ledger.of_link(AtFirst(partitions={"orders": 1}, ids={})))
    await ledger.take_over(["orders"], 4)
    assert (ledger.term_of("orders"), ledger.term_of("clicks")) == (4, 0)
    assert ledger.recorded.term_above({"orders"}) == 4
    assert ledger.recorded.gaps_filled(ORDERS, HERE)
    assert ledger.recorded.topics_at_first(LINK.name) == {"orders": 1}
    await ledger.ledger.write([replace(ledger.of_stop(partition(), refusal(partition()).why), term=3)])
    assert ledger.recorded.stop(ORDERS, HERE) is None  # of who was replaced
    await ledger.write(ledger.removed(ORDERS, RowKind.GAPS))
    assert not ledger.recorded.gaps_filled(ORDERS, HERE)
    assert ledger.removed(ORDERS, RowKind.GAPS) == []


async def test_what_follows_the_source_is_written_beside_what_the_topics_row_says() -> None:
    ledger = await opened()
    followed = Followed(
        values={"retention.ms": "1"}, setting={"segment.ms": (None,), "retention.ms": ("2", "3")}
    )
    assert ledger.of_followed("orders", followed) == []  # there is no row of the topic
    await ledger.write([ledger.of_topic("orders", "orders", "src", {"segment.ms": "7"})])
    assert ledger.recorded.followed("orders") == Followed()  # as a version before this one has written it
    await ledger.take_over(["orders"], 4)
    await ledger.write(ledger.of_followed("orders", followed))
    recorded = ledger.recorded
    assert recorded.followed("orders") == followed
    assert recorded.is_topic("orders", "src", HERE)
    assert recorded.set_by_hand("orders") == {"segment.ms": "7"}
    assert ledger.of_followed("orders", followed) == []
    await ledger.take_over(["orders"], 5)
    assert recorded.followed("orders") == followed
    await ledger.write(ledger.of_followed("orders", Followed()))
    assert recorded.followed("orders") == Followed()


def test_what_another_version_writes_otherwise_is_nothing_that_the_mirror_has_set() -> None:
    assert read_followed({"followed": ["retention.ms"], "setting": {"a": "1", "b": [None, 2]}}) == Followed(
        setting={"b": (None,)}
    )
    assert read_followed({"followed": {"a": 1, "b": "2"}}) == Followed(values={"b": "2"})


# -- topics that are gone at the source


async def test_a_topic_row_says_whether_the_mirror_has_created_the_target_topic_that_is_there() -> None:
    ledger = await opened()
    await ledger.write([ledger.of_topic("orders", "orders", "src", created=True)])
    await ledger.write([ledger.of_topic("clicks", "clicks", "other")])
    assert ledger.recorded.created("orders", HERE)
    assert not ledger.recorded.created("orders", "id of a later one")
    assert not ledger.recorded.created("clicks", HERE)
    assert not ledger.recorded.created("nothing", "")
    known = {each.source_topic: each for each in ledger.recorded.mirrored(LINK.name)}
    assert {name: each.created for name, each in known.items()} == {"orders": True, "clicks": False}
    assert (known["orders"].source_topic_id, known["orders"].target_topic_id) == ("src", HERE)
    assert ledger.recorded.mirrored("another link") == []


async def test_that_a_topic_is_kept_is_written_under_the_term_of_its_row_whoever_has_taken_it() -> None:
    ledger = await opened()
    await ledger.take_over(["orders"], 4)
    await ledger.write([ledger.of_topic("orders", "orders", "src", created=True)])
    later = LinkLedger(ledger.ledger, LINK.name, SF_ID, lambda _topic: HERE)  # of a run that never took it
    await later.keep(["orders", "nothing"])
    (known,) = later.recorded.mirrored(LINK.name)
    assert (known.created, known.kept, known.source_topic_id) == (True, True, "src")
    assert later.recorded.term_above({"orders"}) == 4


async def test_nothing_is_known_any_more_of_a_topic_that_is_forgotten_but_what_was_answered() -> None:
    logs = MemoryLogs()
    ledger = await opened(logs)
    await ledger.take_over(["orders", "clicks"], 4)
    await ledger.write([ledger.of_topic(name, name, "src", created=True) for name in ("orders", "clicks")])
    await ledger.write([ledger.of_loss(ORDERS, (0, 5), "ann"), ledger.of_stop(partition(), STOP)])
    await commanded(ledger, command())
    await ledger.write([ledger.of_answer(command(), Outcome.APPLIED, "paused")])
    ledger.record([ledger.of_gaps(ORDERS)])
    await LinkLedger(ledger.ledger, LINK.name, SF_ID, lambda _topic: HERE).forget("clicks")
    await ledger.forget("orders")
    again = await opened(logs)
    assert [name.kind for name in again.recorded.rows_of("orders")] == [RowKind.ANSWER]
    assert again.recorded.rows_of("clicks") == []
    assert again.recorded.accepted_loss(ORDERS, "") is None
    assert not again.recorded.unanswered(command())


# -- which stops are written


async def test_a_stop_is_written_once_and_stays_as_it_was() -> None:
    ledger = await opened()
    rows = rows_of_stops(ledger, [refusal(partition())])
    assert len(rows) == 1
    await ledger.write(rows)
    assert rows_of_stops(ledger, [refusal(partition()), refusal(partition(1))]) != []
    assert [row.name.partition for row in rows_of_stops(ledger, [refusal(partition(n)) for n in (0, 1)])] == [
        1
    ]
    made_again = LinkLedger(ledger.ledger, LINK.name, SF_ID, lambda _topic: "id of a later one")
    assert len(rows_of_stops(made_again, [refusal(partition())])) == 1


def test_what_lanes_tell_of_stops_is_read_by_link_and_missing_kernels_are_none() -> None:
    why = refusal(partition()).why
    told = of_stop(partition(), why.as_stop(), time_of_day())
    kernels = replace(told, code=StopReason.KERNELS)
    (met,) = stops_met([told, kernels])[LINK.name]
    assert met.partition == partition()
    assert (met.why.reason, met.why.message, met.why.hint) == (why.reason, why.message, why.hint)


# -- what a plan makes of it


async def test_a_pause_counts_for_a_plan_if_it_is_about_this_topic_and_was_not_refused() -> None:
    for wanted, outcome, counts in (
        (command(), None, True),
        (command(topic_id=""), None, True),
        (command(topic_id=BEFORE), None, False),
        (command(), Outcome.APPLIED, True),
        (command(), Outcome.REFUSED, False),
        (command(Wish.RESUME), None, False),
    ):
        ledger = await opened()
        await commanded(ledger, wanted)
        if outcome is not None:
            await ledger.write([ledger.of_answer(wanted, outcome, "m")])
        words = paused_by(ledger.recorded, ORDERS, HERE)
        assert (words is not None) is counts
        assert words is None or words.startswith("paused by ann@desk at ")


async def test_a_topic_that_is_to_be_mirrored_anew_waits_until_that_is_answered() -> None:
    ledger = await opened()
    wanted = command(Wish.REMIRROR, WHOLE_TOPIC)
    await commanded(ledger, wanted)
    assert "mirrored anew" in (paused_by(ledger.recorded, ORDERS, HERE) or "")
    assert ledger.recorded.wanted() == {"orders"}
    await ledger.write([ledger.of_answer(wanted, Outcome.UNDER_WAY, "m")])
    assert paused_by(ledger.recorded, ORDERS, HERE)
    await ledger.write([ledger.of_answer(wanted, Outcome.APPLIED, "m")])
    assert paused_by(ledger.recorded, ORDERS, HERE) is None
    assert not ledger.recorded.wanted()
    await ledger.write([ledger.of_remirror("orders", "1", HERE, {})])  # begun by who was before us
    assert paused_by(ledger.recorded, ORDERS, HERE)


async def test_a_source_topic_that_was_made_again_is_refused_where_both_ids_are_known() -> None:
    ledger = await opened()
    await ledger.write([ledger.of_topic("orders", "orders", "src")])
    target = target_topic(topic_id=HERE)

    def refused(source_id: str) -> StopReason | None:
        why = refuse_by_ledger(ledger.recorded, source_topic(topic_id=source_id), "orders", target)
        return why.reason if why is not None else None

    assert refused("src") is None
    assert refused("") is None
    assert refused("another") is StopReason.RECREATED
    gone = refuse_by_ledger(ledger.recorded, source_topic(topic_id="another"), "orders", None)
    assert gone is None  # no target holds records of the former one


async def test_a_target_topic_that_was_made_again_is_refused_where_both_ids_are_known() -> None:
    ledger = await opened()
    await ledger.write([ledger.of_topic("orders", "orders", "src")])

    def refused(target_id: str) -> Refused | None:
        target = target_topic(topic_id=target_id)
        return refuse_by_ledger(ledger.recorded, source_topic(topic_id="src"), "orders", target)

    assert refused(HERE) is None
    assert refused("") is None  # brokers that tell no ids
    why = refused("another")
    assert why is not None
    assert (why.reason, RESUME_TOPIC in why.hint) == (StopReason.RECREATED, True)
    assert refuse_by_ledger(ledger.recorded, source_topic(topic_id="src"), "orders", None) is None
    assert f"(id {HERE}) was deleted" in (gone_since(ledger.recorded, "orders") or "")
    assert gone_since(ledger.recorded, "clicks") is None


async def test_an_empty_target_topic_that_is_set_up_as_a_mirror_does_it_is_not_somebody_else_s() -> None:
    """Created by one that has ended before it could write so, or by an operator who pasted the hint."""
    ledger = await opened()
    await ledger.write([ledger.of_topic("orders", "orders", "src")])

    def refused(end: int, own: Mapping[str, str]) -> Refused | None:
        sight = PartitionSight(source=span(0, 9), source_end=9, target=span(0, end))
        target = target_topic(topic_id="another", own=own)
        return refuse_by_ledger(
            ledger.recorded, source_topic(sights=[sight], topic_id="src"), "orders", target
        )

    assert refused(0, {**FORCED, "segment.ms": "7"}) is None
    assert refused(5, FORCED) is not None
    assert refused(0, {}) is not None


async def test_while_a_target_topic_is_gone_what_was_said_of_it_counts() -> None:
    ledger = await opened()
    await ledger.write(
        [
            ledger.of_topic("orders", "orders", "src"),
            ledger.of_stop(partition(1), refusal(partition(1)).why),
        ]
    )
    await commanded(ledger, command(Wish.PAUSE, 2))
    recorded = ledger.recorded
    assert recorded.stop(TopicPartition("orders", 1), "") is not None
    assert recorded.pause(TopicPartition("orders", 2), "") is not None
    assert recorded.pause(TopicPartition("orders", 2), "another") is None
    assert refuse_by_ledger(recorded, source_topic(sights=[source_sight(0, 9)] * 3), "orders", None) is None
    why = replace(refusal(partition()).why, reason=StopReason.RECREATED)
    await ledger.write([ledger.of_stop(partition(0), why)])
    refused = refuse_by_ledger(
        recorded, source_topic(sights=[source_sight(0, 9)] * 3), "orders", None
    )  # all of them
    assert refused is not None
    assert refused.reason is StopReason.RECREATED


async def test_that_a_target_topic_was_deleted_is_written_though_it_is_not_there() -> None:
    ledger = await opened(target_id="")
    recreated = replace(refusal(partition()).why, reason=StopReason.RECREATED)
    rows = rows_of_stops(ledger, [RefusePartition(partition=partition(), why=recreated)])
    assert [row.name.kind for row in rows] == [RowKind.STOP]
    assert rows_of_stops(ledger, [refusal(partition())]) == []


async def test_a_row_of_a_later_version_refuses_its_topic_and_no_other() -> None:
    ledger = await opened()
    state: LedgerState = ledger.ledger.state
    state.take(b'\x01["sf-cluster-id","orders",0,"stop",1]', b"\x07{}")
    why = refuse_by_ledger(ledger.recorded, source_topic(), "orders", None)
    assert why is not None
    assert why.reason is StopReason.LEDGER
    assert refuse_by_ledger(ledger.recorded, source_topic("clicks"), "clicks", None) is None


async def test_the_stop_of_a_topic_that_was_made_again_counts_for_whichever_is_there() -> None:
    """Metadata may still show the former one when the stop is written."""
    ledger = await opened()
    why = replace(refusal(partition()).why, reason=StopReason.RECREATED)
    await ledger.write([ledger.of_stop(partition(), why)])
    stop = ledger.recorded.stop(ORDERS, "the id of the new one")
    assert stop is not None
    assert stop.code == "recreated"
