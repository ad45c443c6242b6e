"""The status document: every key of its schema, right with and without a running mirror."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.controller.board import Board
from heliograph.controller.drivership import Role, Seeking, Standby
from heliograph.controller.lane_keeper import LaneView
from heliograph.controller.ledger_sight import LedgerSight
from heliograph.controller.live_document import live_document
from heliograph.controller.mirror import Mirror
from heliograph.controller.plan import AwaitPartition
from heliograph.controller.recorded import Recorded
from heliograph.controller.sights import BEING_WRITTEN
from heliograph.controller.snapshot import LinkAway, LinkSnapshot, PartitionSight
from heliograph.controller.status import status_document
from heliograph.interface.cli import output
from heliograph.model.command import CommandState
from heliograph.model.errors import ClusterUnreachable
from heliograph.model.events import Event
from heliograph.model.ledger import LedgerState, Row, RowKind, RowName
from heliograph.model.occurrence import decode_occurrence
from heliograph.model.outbox import Outbox
from heliograph.model.partition_status import Aligning, Document
from heliograph.model.states import PartitionState, StopReason

from .observed import (
    LINK,
    NYC_ID,
    SF_ID,
    copy,
    mirrored_sight,
    partition,
    progress,
    refusal,
    snapshot,
    source_sight,
    source_topic,
    span,
    target_topic,
)
from .played import elected
from .source_fake import Source, clusters_of

SERVERS = ("sf:9092", "nyc:9092")
NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
LINK_KEYS = {
    "link",
    "state",
    "source",
    "target",
    "source_cluster_id",
    "target_cluster_id",
    "lag_records",
    "lag_ms",
    "bytes_per_s",
    "records_per_s",
    "bound_by",
    "waits",
    "error",
    "hint",
    "summary",
    "partitions",
}
PARTITION_KEYS = {
    "source_topic",
    "target_topic",
    "partition",
    "state",
    "source_start",
    "source_end",
    "next_offset",
    "target_end",
    "lag_records",
    "lag_ms",
    "offsets",
    "lane",
    "error",
    "hint",
    "aligning",
}


def document(
    *snapshots: LinkSnapshot | LinkAway, live: Iterable[Document] = (), source: Source | None = None
) -> dict[str, Any]:
    made = status_document(snapshots, clusters_of(source or Source()), live, NOW)
    return cast("dict[str, Any]", json.loads(json.dumps(asyncio.run(made))))


def link_of(*sights: PartitionSight, live: Iterable[Document] = (), source: Source | None = None) -> Any:
    observed = snapshot(
        source_topic(sights=sights), targets=[target_topic(partitions=len(sights))] if sights else []
    )
    (link,) = document(observed, live=live, source=source)["links"]
    return link


def row_of(sight: PartitionSight, *, live: Iterable[Document] = (), source: Source | None = None) -> Any:
    (row,) = link_of(sight, live=live, source=source)["partitions"]
    return row


def told(
    *boards: Board,
    cluster_ids: tuple[str, str] | None = (SF_ID, NYC_ID),
    role: Role = elected(1),  # noqa: B008 - a frozen value
    outbox: Outbox | None = None,
    waiting: dict[str, str] | None = None,
) -> list[Document]:
    """What running mirrors with these boards say, as it comes over their sockets."""
    answers = []
    for number, board in enumerate(boards):
        mirror = SimpleNamespace(
            board=board,
            lanes=[LaneView(0, pid=100 + number, host="here")],
            settings=SimpleNamespace(links=[LINK], servers=lambda _: SERVERS),
            cluster_ids={LINK.name: cluster_ids} if cluster_ids else {},
            roles={LINK.name: role},
            outbox=outbox or Outbox(),
            waiting=waiting or {},
        )
        answers.append(json.loads(json.dumps(live_document(cast(Mirror, mirror)))))
    return answers


# -- shape


def test_the_document_has_exactly_the_keys_of_its_schema() -> None:
    observed = snapshot(source_topic())
    made = document(observed)
    assert set(made) == {"schema", "at", "links"}
    assert made["schema"] == "heliograph.status/1"
    assert made["at"] == "2026-01-02T03:04:05.678+00:00"
    (link,) = made["links"]
    assert set(link) == LINK_KEYS
    assert set(link["partitions"][0]) == PARTITION_KEYS
    with_mirror = document(observed, live=told(Board([copy(partition())], [])))
    assert set(with_mirror["links"][0]["partitions"][0]) == PARTITION_KEYS


def test_a_link_is_named_with_its_clusters_and_its_topics_target_names() -> None:
    prefixed = replace(LINK, naming="prefix")
    (link,) = document(snapshot(source_topic(), link=prefixed))["links"]
    assert (link["link"], link["source"], link["target"]) == ("sf-to-nyc", "sf", "nyc")
    assert (link["source_cluster_id"], link["target_cluster_id"]) == ("sf-cluster-id", "nyc-cluster-id")
    (row,) = link["partitions"]
    assert (row["source_topic"], row["target_topic"], row["partition"]) == ("orders", "sf.orders", 0)
    assert row["offsets"] == "identical"


@pytest.mark.parametrize("form", [output.Format.json, output.Format.yaml])
def test_the_document_can_be_printed_in_every_form(
    form: output.Format, capsys: pytest.CaptureFixture[str]
) -> None:
    made = asyncio.run(status_document([snapshot(source_topic())], clusters_of(Source()), [], NOW))
    output.emit(made, form, str)
    assert "unknown" in capsys.readouterr().out


# -- without a running mirror


def test_what_only_a_running_mirror_knows_is_null_without_one() -> None:
    link = link_of(mirrored_sight(source_end=100, target_end=60))
    assert link["state"] == "unknown"
    assert (link["bytes_per_s"], link["records_per_s"], link["bound_by"]) == (None, None, None)
    (row,) = link["partitions"]
    assert (row["state"], row["lane"], row["error"], row["hint"]) == ("unknown", None, None, None)


def test_positions_and_lag_come_from_the_clusters_alone() -> None:
    sight = replace(
        mirrored_sight(source_end=100, target_end=60),
        source=span(5, 120, high_watermark=110),
        target=span(5, 60, high_watermark=55),
    )
    row = row_of(sight)
    assert (row["source_start"], row["source_end"]) == (5, 100)  # what a consumer of the link can read
    assert (row["next_offset"], row["target_end"]) == (55, 55)  # what is durable
    assert row["lag_records"] == 45


def test_a_topic_that_is_not_on_the_target_lags_by_all_it_has() -> None:
    row = row_of(source_sight(0, 70))
    assert (row["next_offset"], row["target_end"], row["lag_records"]) == (0, None, 70)


def test_a_target_ahead_of_what_consumers_can_read_is_no_negative_lag() -> None:
    row = row_of(mirrored_sight(source_end=50, target_end=60))
    assert (row["lag_records"], row["lag_ms"]) == (0, 0)


def test_a_source_that_cannot_be_read_has_no_lag_and_says_why() -> None:
    row = row_of(PartitionSight(source=None, source_end=None, unreadable="orders:0 has no leader"))
    assert (row["source_start"], row["source_end"]) == (None, None)
    assert (row["lag_records"], row["lag_ms"]) == (None, None)
    assert row["error"] == "orders:0 has no leader"


def test_a_target_that_cannot_be_read_has_no_known_position_or_lag() -> None:
    """It is there, and what it holds is not known: that is not the same as holding nothing."""
    unread = PartitionSight(source=span(0, 100), source_end=100, unreadable="orders:0 of nyc has no leader")
    row = row_of(unread, source=Source({0: NOW_MS - 5_000}))
    assert row["error"] == "orders:0 of nyc has no leader"
    assert (row["next_offset"], row["lag_records"], row["lag_ms"]) == (None, None, None)


# -- lag_ms


def test_lag_ms_is_the_age_of_the_first_record_that_is_not_copied() -> None:
    source = Source({58: NOW_MS - 9_000, 60: NOW_MS - 5_000, 61: NOW_MS - 1_000})
    assert row_of(mirrored_sight(source_end=100, target_end=60), source=source)["lag_ms"] == 5_000


def test_lag_ms_is_zero_and_nothing_is_read_where_all_is_copied() -> None:
    source = Source()
    assert row_of(mirrored_sight(source_end=60, target_end=60), source=source)["lag_ms"] == 0
    assert source.fetches == 0


def test_a_record_from_the_future_lags_by_nothing() -> None:
    source = Source({60: NOW_MS + 60_000})
    assert row_of(mirrored_sight(source_end=100, target_end=60), source=source)["lag_ms"] == 0


@pytest.mark.parametrize(
    "source",
    [
        Source({}),  # nothing there
        Source({59: NOW_MS}),  # only what is copied already
        Source({60: -1}),  # a record without a timestamp
        Source({60: NOW_MS}, alive=False),
        Source({60: NOW_MS}, led=False),
        Source({60: NOW_MS}, error=1),  # OFFSET_OUT_OF_RANGE: retention took it
    ],
    ids=["empty", "older", "no timestamp", "gone", "no leader", "out of range"],
)
def test_lag_ms_is_null_where_it_cannot_be_read_and_the_lag_in_records_stays(source: Source) -> None:
    row = row_of(mirrored_sight(source_end=100, target_end=60), source=source)
    assert (row["lag_records"], row["lag_ms"]) == (40, None)


# -- a link's sums


def test_a_link_lags_by_the_sum_of_records_and_the_highest_age() -> None:
    source = Source({10: NOW_MS - 9_000, 60: NOW_MS - 5_000})
    link = link_of(
        mirrored_sight(source_end=100, target_end=60),
        mirrored_sight(source_end=30, target_end=10),
        mirrored_sight(source_end=5, target_end=5),
        source=source,
    )
    assert (link["lag_records"], link["lag_ms"]) == (60, 9_000)


def test_a_links_lag_is_null_when_one_partition_cannot_be_read() -> None:
    unread = PartitionSight(source=None, source_end=None, unreadable="no leader")
    link = link_of(mirrored_sight(source_end=5, target_end=5), unread)
    assert (link["lag_records"], link["lag_ms"]) == (None, None)


def test_a_link_without_topics_lags_by_nothing() -> None:
    (link,) = document(snapshot())["links"]
    assert (link["state"], link["lag_records"], link["lag_ms"]) == ("unknown", 0, 0)
    assert link["partitions"] == []


# -- with a running mirror


def test_a_running_mirror_adds_state_lane_and_rates_but_not_the_position() -> None:
    board = Board([copy(partition())], [])
    board.sample(0.0)
    board.report(1, progress(partition(), 77, records=77, size_bytes=7_000))
    board.sample(2.0)
    link = link_of(mirrored_sight(source_end=100, target_end=60), live=told(board))
    assert (link["state"], link["records_per_s"], link["bytes_per_s"]) == ("copying", 38.5, 3_500.0)
    (row,) = link["partitions"]
    assert (row["state"], row["lane"], row["next_offset"]) == ("copying", 1, 60)


def test_a_stopped_partition_says_why_and_what_to_do() -> None:
    row = row_of(mirrored_sight(source_end=100, target_end=60), live=told(Board([], [refusal(partition())])))
    assert (row["state"], row["error"], row["hint"]) == ("stopped", "somebody else wrote it", "delete it")


def test_what_a_lane_is_recovering_from_is_shown_as_an_error() -> None:
    board = Board([copy(partition())], [])
    board.report(0, progress(partition(), 60, trouble="broker 2 is gone"))
    row = row_of(mirrored_sight(source_end=100, target_end=60), live=told(board))
    assert (row["state"], row["error"]) == ("copying", "broker 2 is gone")


def test_how_far_an_alignment_is_comes_from_the_running_mirror() -> None:
    board = Board([copy(partition())], [])
    aligning = Aligning("fill", 40, 100, eta_s=1.5, replicas_clean=2)
    board.report(0, progress(partition(), None, state=PartitionState.ALIGNING, aligning=aligning))
    live = told(board)
    row = row_of(mirrored_sight(source_end=100, target_end=60), live=live)
    assert (row["state"], row["aligning"]) == ("aligning", aligning._asdict())
    board.lane_gone(0)
    assert row_of(mirrored_sight(source_end=100, target_end=60), live=told(board))["aligning"] is None
    assert row_of(mirrored_sight(source_end=100, target_end=60))["aligning"] is None


def test_a_partition_that_the_mirror_does_not_know_is_unknown_beside_the_others() -> None:
    board = Board([copy(partition(0))], [])
    board.report(0, progress(partition(0), 5, state=PartitionState.CAUGHT_UP))
    link = link_of(*[mirrored_sight(source_end=5, target_end=5)] * 2, live=told(board))
    assert [row["state"] for row in link["partitions"]] == ["caught_up", "unknown"]
    assert link["state"] == "unknown"


def test_two_mirrors_are_both_heard() -> None:
    boards = [Board([copy(partition(n))], []) for n in range(2)]
    for number, board in enumerate(boards):
        board.report(number, progress(partition(number), 5))
    link = link_of(*[mirrored_sight(source_end=5, target_end=5)] * 2, live=told(*boards))
    assert [row["lane"] for row in link["partitions"]] == [0, 1]


@pytest.mark.parametrize("others", [("lax-cluster-id", NYC_ID), (SF_ID, "lax-cluster-id"), None])
def test_a_mirror_of_other_clusters_with_a_link_of_the_same_name_is_not_heard(
    others: tuple[str, str] | None,
) -> None:
    """Two configs of one user: the name of a link is theirs, the clusters' ids are not. None: not planned yet."""
    board = Board([copy(partition())], [])
    board.report(0, progress(partition(), 5))
    link = link_of(mirrored_sight(source_end=5, target_end=5), live=told(board, cluster_ids=others))
    assert (link["state"], link["records_per_s"]) == ("unknown", None)
    both = [*told(board), *told(board, cluster_ids=others)]
    assert link_of(mirrored_sight(source_end=5, target_end=5), live=both)["state"] == "copying"


def test_a_target_that_is_being_written_has_a_lag_and_is_no_error() -> None:
    sight = replace(mirrored_sight(source_end=100, target_end=60), unreadable=BEING_WRITTEN)
    row = row_of(sight)
    assert (row["next_offset"], row["lag_records"], row["error"]) == (60, 40, None)


def test_a_lane_without_a_slot_is_shown_with_what_to_do() -> None:
    board = Board([copy(partition())], [])
    board.lane_waits([partition()], "lane 0 has no Spark slot yet", "lower `lanes`")
    row = row_of(mirrored_sight(source_end=5, target_end=5), live=told(board))
    assert (row["state"], row["error"]) == ("pending", "lane 0 has no Spark slot yet")
    assert row["hint"] == "lower `lanes`"


def test_answers_may_come_as_any_iterable() -> None:
    def one_by_one() -> Iterator[Document]:
        yield from told(Board([copy(partition())], []))

    link = link_of(mirrored_sight(source_end=5, target_end=5), live=one_by_one())
    assert link["state"] == "pending"
    assert link["records_per_s"] == 0.0


def test_a_link_whose_only_run_stands_by_is_shown_as_that() -> None:
    standing_by = told(Board([copy(partition())], []), role=Standby(active="another"))
    link = link_of(mirrored_sight(source_end=5, target_end=5), live=standing_by)
    assert link["state"] == "standby"
    assert link["partitions"][0]["state"] == "unknown"  # what its driver does, a standby cannot know


def test_a_run_that_stands_by_says_who_holds_what_it_wants() -> None:
    board = Board([copy(partition())], [])
    board.stand_by(LINK.name, "b (pid 7), link theirs")
    live = told(board, role=Standby(active="b (pid 7), link theirs"))
    link = link_of(mirrored_sight(source_end=5, target_end=5), live=live)
    (row,) = link["partitions"]
    assert (link["state"], row["state"]) == ("standby", "pending")
    assert row["error"] == "it is held by b (pid 7), link theirs; this run takes it over when that one ends"


@pytest.mark.parametrize("holder_first", [True, False])
def test_who_holds_a_partition_is_heard_over_one_that_is_kept_from_it(holder_first: bool) -> None:
    """Two configs of one user may have links of one name that share some topics."""
    kept, holder = Board([copy(partition())], []), Board([copy(partition())], [])
    kept.stand_by(LINK.name, "the other")
    holder.report(3, progress(partition(), 5))
    live = told(*((holder, kept) if holder_first else (kept, holder)))
    row = row_of(mirrored_sight(source_end=5, target_end=5), live=live)
    assert (row["state"], row["lane"], row["error"]) == ("copying", 3, None)


@pytest.mark.parametrize("role", [elected(2), Seeking()])
@pytest.mark.parametrize("standby_first", [True, False])
def test_a_links_driver_is_heard_over_one_that_stands_by(role: Role, standby_first: bool) -> None:
    board = Board([copy(partition())], [])
    board.report(3, progress(partition(), 5))
    answers = [*told(Board([copy(partition())], []), role=Standby(active=None)), *told(board, role=role)]
    live = answers if standby_first else answers[::-1]
    link = link_of(mirrored_sight(source_end=5, target_end=5), live=live)
    assert (link["state"], link["partitions"][0]["lane"]) == ("copying", 3)


@pytest.mark.parametrize("answer", [{}, {"partitions": 7, "links": []}, {"partitions": [{"key": [1]}]}])
def test_an_answer_that_is_no_live_document_is_as_good_as_none(answer: Document) -> None:
    row = row_of(mirrored_sight(source_end=5, target_end=5), live=[answer])
    assert row["state"] == "unknown"


def test_a_live_document_tells_which_processes_run_the_lanes() -> None:
    (answer,) = told(Board([], []))
    assert answer["lanes"] == [{"lane": 0, "pid": 100, "host": "here"}]


def test_a_live_document_tells_how_often_each_event_came_and_the_last_of_them() -> None:
    outbox = Outbox()
    for lane in range(3):
        outbox.tell(Event.LANE_GONE, f"lane {lane} is gone", hint="look", link="sf-to-nyc")
    outbox.tell(StopReason.LOST, "they are gone")
    (answer,) = told(Board([], []), outbox=outbox)
    assert answer["events"]["counts"] == {"lane_gone": 3, "lost": 1}
    assert [decode_occurrence(each) for each in answer["events"]["last"]] == [
        replace(each, at=each.at.replace(microsecond=each.at.microsecond // 1000 * 1000))
        for each in outbox.last
    ]
    assert [each["severity"] for each in answer["events"]["last"]] == ["warning"] * 3 + ["error"]


# -- with a cluster that is away


def away(
    source_id: str | None = None, target_id: str | None = NYC_ID, servers: tuple[str, str] = SERVERS
) -> LinkAway:
    problem = ClusterUnreachable("cluster 'sf' cannot be reached", hint="check it")
    return LinkAway(
        link=LINK, servers=servers, source_cluster_id=source_id, target_cluster_id=target_id, problem=problem
    )


def test_a_link_whose_source_is_away_is_shown_as_the_running_mirror_tells() -> None:
    board = Board([copy(partition(0)), copy(partition(1))], [])
    board.report(3, progress(partition(1), 60, trouble="broker 2 is gone"))
    (link,) = document(away(), live=told(board))["links"]
    assert set(link) == LINK_KEYS
    assert (link["state"], link["error"], link["hint"]) == (
        "pending",
        "cluster 'sf' cannot be reached",
        "check it",
    )
    assert (link["source_cluster_id"], link["lag_records"], link["lag_ms"]) == (SF_ID, None, None)
    assert [set(row) for row in link["partitions"]] == [PARTITION_KEYS] * 2
    row = link["partitions"][1]
    assert (row["state"], row["lane"], row["next_offset"]) == ("copying", 3, 60)
    assert (row["error"], row["lag_records"], row["source_end"]) == ("broker 2 is gone", None, None)


def test_a_link_whose_source_is_away_is_unknown_without_a_running_mirror() -> None:
    (link,) = document(away())["links"]
    assert (link["state"], link["lag_records"], link["partitions"]) == ("unknown", None, [])
    assert link["error"] == "cluster 'sf' cannot be reached"


def test_a_mirror_to_another_target_is_not_heard_about_a_link_whose_source_is_away() -> None:
    live = told(Board([copy(partition())], []), cluster_ids=(SF_ID, "lax-cluster-id"))
    assert document(away(), live=live)["links"][0]["partitions"] == []


def test_a_mirror_of_a_source_elsewhere_is_not_heard_about_one_that_is_away() -> None:
    live = told(Board([copy(partition())], []))
    assert document(away(servers=("elsewhere:9092", SERVERS[1])), live=live)["links"][0]["partitions"] == []


def test_a_cluster_that_is_away_hides_no_other_link() -> None:
    other = replace(LINK, name="other")
    made = document(away(), snapshot(source_topic(), link=other))
    assert [(link["link"], bool(link["error"])) for link in made["links"]] == [
        (LINK.name, True),
        ("other", False),
    ]


ATTENTION = ["stopped", "unknown", "paused", "pending", "aligning", "copying", "caught_up"]


@given(st.lists(st.sampled_from(list(PartitionState)), min_size=1, max_size=5))
def test_a_links_state_is_the_one_that_most_needs_attention(states: list[PartitionState]) -> None:
    board = Board([copy(partition(n)) for n in range(len(states))], [])
    for number, state in enumerate(states):
        board.report(0, progress(partition(number), 5, state=state))
    link = link_of(*[mirrored_sight(source_end=5, target_end=5)] * len(states), live=told(board))
    assert link["state"] == min(states, key=ATTENTION.index)


def test_a_partition_that_waits_for_its_topic_is_pending_with_the_line_that_creates_it() -> None:
    awaited = AwaitPartition(
        partition=partition(), goal=100, why="there is no topic", command="kafka-topics.sh --create"
    )
    row = row_of(source_sight(0, 100), live=told(Board([], [], [awaited])))
    assert (row["state"], row["hint"], row["lag_records"]) == ("pending", "kafka-topics.sh --create", 100)
    assert row["error"] == "there is no topic"


# -- what is recorded


def recorded(**stop: str) -> dict[str, LedgerSight]:
    state = LedgerState()
    name = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=0, kind=RowKind.STOP)
    fields = {"code": "lost", "message": "offsets 5 to 9 are gone", "hint": "resume it", **stop}
    state.put(Row(name=name, term=1, fields=fields))
    return {LINK.name: LedgerSight(recorded=Recorded(state, CommandState(), SF_ID))}


def with_ledger(ledgers: dict[str, LedgerSight], live: Iterable[Document] = ()) -> Any:
    seen = snapshot(
        source_topic(sights=[mirrored_sight(source_end=100, target_end=90)]),
        targets=[target_topic(topic_id="now")],
    )
    made = asyncio.run(status_document([seen], clusters_of(Source()), live, NOW, ledgers))
    return made["links"][0]


def test_a_stop_that_is_recorded_is_shown_where_no_mirror_runs() -> None:
    link = with_ledger(recorded(target_topic_id="now"))
    (row,) = link["partitions"]
    assert (link["state"], row["state"]) == ("stopped", "stopped")
    assert (row["error"], row["hint"], row["lag_records"]) == ("offsets 5 to 9 are gone", "resume it", 10)


def test_a_stop_of_a_target_topic_that_is_gone_is_not_shown() -> None:
    assert with_ledger(recorded(target_topic_id="before"))["state"] == "unknown"


def test_the_word_of_a_running_mirror_counts_more_than_what_is_recorded() -> None:
    board = Board([copy(partition())], [])
    board.report(0, progress(partition(), 90))
    (row,) = with_ledger(recorded(target_topic_id="now"), told(board))["partitions"]
    assert (row["state"], row["error"]) == ("copying", None)
