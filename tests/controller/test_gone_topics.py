"""Which topics of a link are gone: by what is written down, and what is known of them by that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from heliograph.controller.deletion_guards import Facts
from heliograph.controller.gone_topics import facts_of, gone_topics, is_wanted
from heliograph.controller.recorded import Recorded
from heliograph.model.clock import time_of_day
from heliograph.model.command import Command, CommandState, Subject, Wish, encode_command
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState, Row, RowKind, RowName
from heliograph.model.link import Link
from heliograph.model.policy import DEFAULT_POLICY, OnSourceDelete, TopicPolicy

from .observed import LINK, SF_ID

DELETING = replace(DEFAULT_POLICY, on_source_delete=OnSourceDelete.DELETE)
LINK_OF_ALL = replace(LINK, topics=("o.*", "c.*"), policy=DELETING)


class Written:
    def __init__(self) -> None:
        self.state, self.commands = LedgerState(), CommandState()
        self.recorded = Recorded(self.state, self.commands, SF_ID)

    def row(
        self, topic: str, kind: RowKind, partition: int, fields: dict[str, Any], source: str = SF_ID
    ) -> None:
        name = RowName(source_cluster_id=source, target_topic=topic, partition=partition, kind=kind)
        self.state.put(Row(name=name, term=3, fields=fields))

    def topic(self, name: str, *, source: str = SF_ID, target: str | None = None, **changed: Any) -> None:
        values = {
            "link": LINK.name,
            "source_topic": name,
            "source_topic_id": f"source id of {name}",
            "target_topic_id": f"target id of {name}",
            "created": True,
        }
        self.row(target or name, RowKind.TOPIC, WHOLE_TOPIC, {**values, **changed}, source)

    def command(self, wish: Wish, topic: str, partition: int) -> None:
        subject = Subject(source_cluster_id=SF_ID, target_topic=topic, partition=partition)
        command = Command(
            id=f"{wish} {topic} {partition}",
            wish=wish,
            subject=subject,
            at=time_of_day(),
            author="ann@desk",
            target_topic_id=f"target id of {topic}",
        )
        self.commands.take(*encode_command(command))


def gone(written: Written, at_source: Collection[str] = (), link: Link = LINK_OF_ALL) -> list[str]:
    return [topic.source_topic for topic in gone_topics(link, written.recorded, at_source)]


def facts(
    written: Written, *, link: Link = LINK_OF_ALL, there: Collection[str] = (), others: int = 0
) -> dict[str, Facts]:
    topics = gone_topics(link, written.recorded, ())
    ids = {name: f"target id of {name}" for name in there}
    found = facts_of(
        link, written.recorded, topics, ids, others=others, holds=lambda topic: topic != "clicks"
    )
    return {each.topic.source_topic: each for each in found}


def test_a_topic_that_is_written_down_and_not_at_the_source_is_gone() -> None:
    written = Written()
    written.topic("orders")
    written.topic("clicks")
    assert gone(written) == ["clicks", "orders"]
    assert gone(written, ["orders", "others"]) == ["clicks"]
    let_go = gone_topics(LINK_OF_ALL, written.recorded, (), lambda topic: topic == "orders")
    assert [topic.source_topic for topic in let_go] == ["orders"]


def test_what_the_link_does_not_mirror_is_not_its_to_judge() -> None:
    written = Written()
    written.topic("orders", link="another link")
    written.topic("views")  # no pattern selects it any more
    written.topic("other-cluster", source="another cluster")
    written.topic("clicks", target="prefix.clicks")  # the naming was another one then
    assert gone(written) == []
    assert gone(written, link=replace(LINK_OF_ALL, exclude=("orders",))) == []


def test_whether_it_is_wanted_is_what_the_link_says_of_that_topic() -> None:
    written = Written()
    written.topic("orders")
    (orders,) = gone_topics(LINK_OF_ALL, written.recorded, ())
    assert is_wanted(LINK_OF_ALL, orders)
    assert not is_wanted(LINK, orders)
    kept = TopicPolicy(match="orders", policy=DEFAULT_POLICY)
    assert not is_wanted(replace(LINK_OF_ALL, policies=(kept,)), orders)


def test_stops_pauses_and_commands_are_those_of_the_topic_that_was_mirrored_to() -> None:
    written = Written()
    written.topic("orders")
    written.topic("clicks")
    stop = {"code": "foreign", "target_topic_id": "target id of orders"}
    written.row("orders", RowKind.STOP, 2, stop)
    written.row("orders", RowKind.STOP, 3, {**stop, "target_topic_id": "id of a former one"})
    written.command(Wish.PAUSE, "orders", 1)
    written.command(Wish.REMIRROR, "clicks", WHOLE_TOPIC)
    found = facts(written, there=["orders"])
    orders, clicks = found["orders"], found["clicks"]
    assert (dict(orders.stops), set(orders.paused), orders.commanded) == ({2: "foreign"}, {1}, False)
    assert (dict(clicks.stops), set(clicks.paused), clicks.commanded) == ({}, set(), True)
    assert (orders.target_topic_id, clicks.target_topic_id) == ("target id of orders", "")
    assert (orders.holds, clicks.holds) == (True, False)


def test_only_those_count_that_would_be_deleted() -> None:
    written = Written()
    for number in range(6):
        written.topic(f"orders-{number}")
    written.topic("orders-kept", kept=True)
    written.topic("orders-by-hand", created=False)
    written.topic("orders-paused")
    written.command(Wish.PAUSE, "orders-paused", 0)
    written.topic("clicks")  # another run's
    there = [*(f"orders-{number}" for number in range(4)), "orders-kept", "orders-by-hand", "orders-paused"]
    found = facts(written, there=there, others=30)
    assert {(each.gone, each.of) for each in found.values()} == {(4, 34)}


def test_of_a_topic_with_a_row_that_cannot_be_read_that_is_known() -> None:
    written = Written()
    written.topic("orders")
    name = written.recorded.topic_name("orders", RowKind.TOPIC)
    key = b'\x01["%s","orders",0,"stop",3]' % SF_ID.encode()
    written.state.take(key, b"\x09{}")
    assert facts(written)["orders"].unreadable
    assert written.state.fields(name) is not None
