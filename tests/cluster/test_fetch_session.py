"""A fetch session against a model of the broker's side: the broker always knows what is wanted, and what an answer
leaves out is unchanged, whatever is lost, evicted or refused."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heliograph.cluster.fetch_session import FetchSession, without_session
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant
from heliograph.wire.fetch_request import FIRST_EPOCH, LAST_EPOCH
from tests.support.model_sessions import ModelSessions, OpenFetch

ID, OTHER_ID = b"\1" * 16, b"\2" * 16


def want(partition: int, offset: int = 0, topic_id: bytes = ID) -> FetchWant:
    return FetchWant("orders", partition, offset, 1000, 3, 2, topic_id)


def got(partition: int, watermark: int = 10, records: bytes = b"", error: int = 0) -> FetchedPartition:
    return FetchedPartition(
        "orders", partition, error, watermark, watermark, 0, -1, memoryview(records), None, None
    )


def exchange(session: FetchSession, broker: ModelSessions, watermark: int = 10) -> list[int]:
    """A request and its answer; which partitions the answer is about."""
    opened = broker.open(session.request())
    assert isinstance(opened, OpenFetch)
    reply = opened.reply([got(each.partition, watermark) for each in opened.wants])
    session.answered(reply)
    return [fetched.partition for fetched in reply.partitions]


def begun(*partitions: int) -> tuple[FetchSession, ModelSessions]:
    session, broker = FetchSession(), ModelSessions()
    for partition in partitions:
        session.want(want(partition))
    exchange(session, broker)
    return session, broker


def test_the_first_request_says_everything_and_the_next_ones_what_has_changed() -> None:
    session, _ = begun(0, 1, 2)
    session.want(want(1, 5))
    session.want(want(2))
    session.want(want(3))
    session.forget(("orders", 0))
    ask = session.request()
    assert (ask.wants, ask.forgotten) == ([want(1, 5), want(3)], [want(0)])
    assert (ask.session_id, ask.session_epoch) == (1, 1)


def test_nothing_is_said_of_what_came_and_went_between_two_requests() -> None:
    session, _ = begun(0)
    session.want(want(1))
    session.forget(("orders", 1))
    session.forget(("orders", 0))
    session.want(want(0))
    ask = session.request()
    assert (ask.wants, ask.forgotten) == ([], [])


def test_what_an_answer_leaves_out_is_what_was_told_last() -> None:
    session, broker = begun(0, 1)
    assert exchange(session, broker) == []
    unchanged = session.unchanged(("orders", 1))
    assert unchanged is not None
    assert (unchanged.high_watermark, len(unchanged.records)) == (10, 0)


def test_nothing_is_known_of_a_partition_that_joined_until_it_is_in_an_answer() -> None:
    session, broker = begun(0)
    session.want(want(1))
    assert session.unchanged(("orders", 1)) is None
    assert exchange(session, broker) == [1]
    session.forget(("orders", 1))
    exchange(session, broker)
    assert session.unchanged(("orders", 1)) is None


def test_nothing_is_known_of_a_partition_after_an_error() -> None:
    session, broker = begun(0, 1)
    opened = broker.open(session.request())
    assert isinstance(opened, OpenFetch)
    session.answered(opened.reply([got(0, error=6), got(1)]))
    assert session.unchanged(("orders", 0)) is None
    assert session.unchanged(("orders", 1)) is not None


def test_a_lost_answer_is_followed_by_a_full_request_that_ends_the_old_session() -> None:
    session, broker = begun(0, 1)
    broker.open(session.request())
    session.lost()
    ask = session.request()
    assert (ask.session_id, ask.session_epoch, ask.wants) == (1, FIRST_EPOCH, [want(0), want(1)])
    broker.open(ask)
    assert len(broker) == 0


def test_a_session_that_is_gone_is_followed_by_a_full_request() -> None:
    session, broker = begun(0, 1)
    broker.forget_all()
    refused = broker.open(session.request())
    assert isinstance(refused, FetchReply)
    assert refused.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert session.refused(refused.error)
    assert session.request().wants == [want(0), want(1)]


def test_a_full_request_that_is_refused_is_no_matter_of_the_session() -> None:
    session = FetchSession()
    session.want(want(0))
    session.request()
    assert not session.refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    session, _ = begun(0)
    session.request()
    assert not session.refused(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_broker_without_sessions_is_told_everything_each_time_in_turn() -> None:
    session = FetchSession()
    for partition in range(3):
        session.want(want(partition))
    assert [each.partition for each in session.request().wants] == [0, 1, 2]
    session.answered(FetchReply(0, 0, [got(0, records=b"r"), got(1), got(2)]))
    ask = session.request()
    assert [each.partition for each in ask.wants] == [1, 2, 0]
    assert ask.session_epoch == FIRST_EPOCH


def test_epochs_begin_again_behind_the_largest() -> None:
    session, _ = begun(0)
    session._epoch = 2**31 - 1
    session.request()
    session.answered(FetchReply(0, 0, [], session_id=1))
    assert session.request().session_epoch == 1


def test_topics_go_by_their_ids_while_all_are_known() -> None:
    session, broker = begun(0)
    assert session.request().names == {ID: "orders"}
    session.answered(FetchReply(0, 0, [], session_id=1))
    session.want(want(1, topic_id=b""))
    ask = session.request()
    assert (ask.names, ask.session_epoch, len(ask.wants)) == (None, FIRST_EPOCH, 2)
    assert isinstance(broker.open(ask), OpenFetch)


def test_a_topic_that_was_made_again_is_asked_for_by_its_new_id_in_a_new_session() -> None:
    """A broker that goes by names would forget what the same request names and forgets."""
    session, broker = begun(0, 1)
    session.want(want(0, topic_id=OTHER_ID))
    ask = session.request()
    assert (ask.session_epoch, ask.wants, ask.forgotten) == (
        FIRST_EPOCH,
        [want(0, topic_id=OTHER_ID), want(1)],
        [],
    )
    assert ask.names == {ID: "orders", OTHER_ID: "orders"}
    opened = broker.open(ask)
    assert isinstance(opened, OpenFetch)
    session.answered(opened.reply([got(0), got(1)]))
    assert len(broker) == 1


def test_a_request_without_a_session_begins_none() -> None:
    broker = ModelSessions()
    ask = without_session([want(0)])
    assert (ask.session_epoch, ask.names) == (LAST_EPOCH, {ID: "orders"})
    assert without_session([want(0, topic_id=b"")]).names is None
    opened = broker.open(ask)
    assert isinstance(opened, OpenFetch)
    opened.reply([got(0)])
    assert len(broker) == 0


class Sessions(RuleBasedStateMachine):
    """Whatever happens, the broker reads what is wanted, and what is left out has not changed."""

    def __init__(self) -> None:
        super().__init__()
        self.session, self.broker = FetchSession(), ModelSessions(slots=2)
        self.wanted: dict[int, FetchWant] = {}
        self.watermarks: dict[int, int] = {}

    partitions = st.integers(0, 5)

    @rule(partition=partitions, offset=st.integers(0, 3), named=st.booleans())
    def want(self, partition: int, offset: int, named: bool) -> None:
        self.wanted[partition] = want(partition, offset, b"" if named and partition == 5 else ID)
        self.session.want(self.wanted[partition])

    @rule(partition=partitions)
    def forget(self, partition: int) -> None:
        self.wanted.pop(partition, None)
        self.session.forget(("orders", partition))

    @rule(partition=partitions)
    def grow(self, partition: int) -> None:
        self.watermarks[partition] = self.watermarks.get(partition, 0) + 1

    @rule()
    def evict(self) -> None:
        self.broker.forget_all()

    @rule(others=st.integers(1, 2))
    def others_need_room(self, others: int) -> None:
        for _ in range(others):
            self.broker.begin([want(9)], [got(9)], by_id=True)

    @precondition(lambda self: self.wanted)
    @rule(outcome=st.sampled_from(["answered", "answered", "answered", "lost", "mute"]), failing=partitions)
    def fetch(self, outcome: str, failing: int) -> None:
        opened = self.broker.open(self.session.request())
        if isinstance(opened, FetchReply):
            assert self.session.refused(opened.error)
            opened = self.broker.open(self.session.request())
        assert isinstance(opened, OpenFetch)
        assert {each.partition: each for each in opened.wants} == self.wanted
        if outcome == "lost":
            self.session.lost()
            return
        reply = opened.reply([self.read(each, failing) for each in opened.wants], mute=outcome == "mute")
        self.session.answered(reply)
        if outcome == "answered":
            self.check_absent({fetched.partition for fetched in reply.partitions})

    def read(self, each: FetchWant, failing: int) -> FetchedPartition:
        watermark = self.watermarks.get(each.partition, 0)
        return got(each.partition, watermark, error=3 if each.partition == failing else 0)

    def check_absent(self, told: set[int]) -> None:
        for partition in self.wanted.keys() - told:
            unchanged = self.session.unchanged(("orders", partition))
            assert unchanged is not None
            assert unchanged.high_watermark == self.watermarks.get(partition, 0)

    @invariant()
    def counts(self) -> None:
        assert len(self.session) == len(self.wanted)


Sessions.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSessions: Any = Sessions.TestCase
