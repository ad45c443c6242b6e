"""What comes of pausing, resuming and mirroring again: what is written, what is refused, and what is shown before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from heliograph.cluster.group_reads import TopicGroups
from heliograph.controller.build_settings import with_build
from heliograph.controller.remirror_cost import lost_of
from heliograph.controller.snapshot import PartitionSight
from heliograph.model.command import Wish
from heliograph.model.errors import UsageError
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState, Row, RowKind, RowName
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import PartitionState, StopReason
from heliograph.operations import deciding
from heliograph.operations.aim import take_aim
from heliograph.operations.copying import duration, retention_warning
from heliograph.operations.decision import CommandLine, Decision
from heliograph.operations.looking import LinkView
from heliograph.operations.views import Retention, TopicTrace
from tests.controller.observed import LINK, SF_ID, partition, snapshot, source_topic, span, target_topic

from .scene import TOPIC_ID, look, sight, stop_row, wished

LINE = CommandLine(config="my conf.yaml")
HOUR_MS = 3_600_000
LOST = sight((50, 100), (0, 20))
FINE = sight((0, 100), (0, 90))


def pause(seen: LinkView, *words: str) -> Decision:
    return deciding.pause(take_aim([LINK], words or ["orders"]), seen, PartitionFilter())


def resume(seen: LinkView, *words: str, accepts_loss: bool = False, **filters: Any) -> Decision:
    aim = take_aim([LINK], words, everything=not words)
    return deciding.resume(aim, seen, PartitionFilter(**filters), accepts_loss=accepts_loss, line=LINE)


def remirror(seen: LinkView) -> Decision:
    return deciding.remirror(take_aim([LINK], ["orders"]), seen, PartitionFilter())


# -- pause


def test_a_pause_is_written_for_each_partition_that_was_named() -> None:
    decision = pause(look(FINE, FINE, FINE), "orders:0,2")
    assert [(each.where.partition, each.wish, each.target_topic_id) for each in decision.drafts] == [
        (0, Wish.PAUSE, TOPIC_ID),
        (2, Wish.PAUSE, TOPIC_ID),
    ]
    assert not decision.destroys


def test_what_is_paused_already_is_not_paused_again() -> None:
    decision = pause(look(FINE, commands=[wished(Wish.PAUSE)]))
    assert decision.drafts == ()
    (told,) = decision.unchanged
    assert (told.subject, "ann@desk" in told.message) == ("orders:0", True)


def test_a_target_topic_that_was_deleted_under_a_running_mirror_is_resumed() -> None:
    gone = look(PartitionSight(source=span(0, 9), source_end=9), has_target=False)
    (view,) = gone.partitions
    status = view.status._replace(state=PartitionState.STOPPED, reason=StopReason.RECREATED)
    stopped = replace(gone, partitions=(replace(view, status=status),))
    (draft,) = resume(stopped, "orders").drafts
    assert (draft.wish, draft.stop) == (Wish.RESUME, "recreated")


def test_what_is_not_there_is_refused() -> None:
    nowhere = pause(look(PartitionSight(source=span(0, 9), source_end=9), has_target=False))
    assert "the target has no partition orders:0: nothing" in nowhere.refusals[0].message
    assert "links.sf-to-nyc.exclude" in nowhere.refusals[0].hint
    assert "has no topic absent" in pause(look(FINE), "absent").refusals[0].message
    assert "has no partition orders:7" in pause(look(FINE), "orders:0,7").refusals[0].message


def test_what_a_newer_version_has_recorded_is_left_alone() -> None:
    seen, newer = look(FINE), LedgerState()
    newer.take(b"\x07", None)
    view = seen.partitions[0]
    unread = replace(view, word=replace(view.word, unread="of version 7"))
    seen = replace(seen, partitions=(unread,))
    assert pause(seen).refusals[0].message == "of version 7"
    assert resume(seen, "orders").refusals[0].message == "of version 7"
    assert remirror(seen).refusals[0].message == "of version 7"


def test_a_pause_says_for_how_long_the_source_keeps_what_is_not_copied() -> None:
    kept = {"retention.ms": str(2 * HOUR_MS)}
    behind = look(FINE, source_configs=kept, told={0: {"lag_ms": 50 * 60_000}})
    assert pause(behind).drafts[0].shown == (
        "orders:0: the source keeps records for 2 h: in 1 h 10 min it may delete what is not copied",
    )
    assert pause(look(FINE, source_configs={"retention.ms": "-1"})).drafts[0].shown == ()
    compacted = {**kept, "cleanup.policy": "compact"}
    assert pause(look(FINE, source_configs=compacted)).drafts[0].shown == ()


@pytest.mark.parametrize(
    ("lag_ms", "retention", "words"),
    [
        (0, Retention(keeps_ms=2 * HOUR_MS), "for 2 h: after that what is not copied is lost"),
        (None, Retention(keeps_ms=2 * HOUR_MS), "for 2 h: after that what is not copied is lost"),
        (3 * HOUR_MS, Retention(keeps_ms=2 * HOUR_MS), "it may delete what is not copied any time now"),
        (0, Retention(keeps_bytes=5000), "the source keeps 5,000 bytes of it"),
    ],
)
def test_the_warning_is_right_at_its_edges(lag_ms: int | None, retention: Retention, words: str) -> None:
    status = PartitionStatus(partition=partition(), lag_ms=lag_ms)
    assert words in (retention_warning(status, retention) or "")
    assert retention_warning(status, Retention()) is None


@pytest.mark.parametrize(
    ("span_ms", "words"),
    [
        (0, "less than 1 s"),
        (59_000, "59 s"),
        (2 * HOUR_MS, "2 h"),
        (90_000_000, "1 day 1 h"),
        (7 * 24 * HOUR_MS, "7 days"),
        (HOUR_MS + 5_000, "1 h"),
    ],
)
def test_durations_are_told_in_their_largest_units(span_ms: int, words: str) -> None:
    assert duration(span_ms) == words


# -- resume


def test_lost_offsets_are_not_skipped_unless_they_are_accepted() -> None:
    decision = resume(look(LOST, rows=[stop_row()]), "orders")
    assert decision.drafts == ()
    (refusal,) = decision.refusals
    assert "offsets 20 to 49 (30) are lost" in refusal.message
    assert refusal.hint == "heliograph topics resume -f 'my conf.yaml' sf-to-nyc orders:0 --accept-loss"


def test_what_is_accepted_are_the_offsets_that_are_lost_now() -> None:
    decision = resume(look(LOST, rows=[stop_row(next_offset=30)]), "orders", accepts_loss=True)
    (draft,) = decision.drafts
    assert (draft.stop, draft.loses, draft.destroys) == ("lost", {0: (20, 50)}, True)
    assert draft.shown == ("orders:0: offsets 20 to 49 (30) are lost for ever",)


def test_a_loss_that_is_too_large_leads_to_a_new_mirror() -> None:
    far = sight((10_000_021, 20_000_000), (0, 20))
    decision = resume(look(far, rows=[stop_row()]), "orders", accepts_loss=True)
    assert decision.drafts == ()
    assert decision.refusals[0].hint == "heliograph topics remirror -f 'my conf.yaml' sf-to-nyc orders"
    just = resume(
        look(sight((10_000_020, 20_000_000), (0, 20)), rows=[stop_row()]), "orders", accepts_loss=True
    )
    assert just.drafts[0].loses == {0: (20, 10_000_020)}


def test_a_loss_that_cannot_be_read_is_not_accepted() -> None:
    unseen = PartitionSight(source=None, source_end=None, target=span(0, 20), unreadable="no leader")
    decision = resume(look(unseen, rows=[stop_row()]), "orders", accepts_loss=True)
    assert "no leader" in decision.refusals[0].message


def test_another_stop_is_resumed_by_its_code_and_loses_nothing() -> None:
    (draft,) = resume(look(FINE, rows=[stop_row(code="too_large")]), "orders").drafts
    assert (draft.stop, draft.loses, draft.destroys) == ("too_large", {}, False)
    assert draft.shown == ("orders:0: stopped with too_large: why: too_large",)


def test_a_stop_of_which_only_a_running_mirror_tells_is_resumed_too() -> None:
    told = {0: {"state": PartitionState.STOPPED, "reason": StopReason.GAP, "error": "a gap"}}
    assert resume(look(FINE, told=told), "orders").drafts[0].stop == "gap"


@pytest.mark.parametrize("has_target", [True, False])
def test_what_may_be_stopped_on_another_machine_is_resumed_if_it_is_named(*, has_target: bool) -> None:
    unknown = {0: {"state": PartitionState.UNKNOWN}}
    seen = look(FINE, told=unknown, has_target=has_target)
    (draft,) = resume(seen, "orders").drafts
    assert (draft.stop, draft.destroys, "no stop is recorded" in draft.shown[0]) == (None, False, True)
    assert resume(seen).drafts == ()


def test_what_is_paused_is_resumed_and_what_runs_is_left() -> None:
    runs = {0: {"state": PartitionState.CAUGHT_UP}}
    seen = look(FINE, FINE, commands=[wished(Wish.PAUSE, 1)], told=runs)
    decision = resume(seen, "orders")
    assert [each.where.partition for each in decision.drafts] == [1]
    assert decision.drafts[0].stop is None
    assert [(each.subject, each.message) for each in decision.unchanged] == [
        ("orders:0", "is not stopped or paused")
    ]
    assert resume(seen).unchanged == ()  # of all topics only what is resumed is worth a word


def test_many_are_chosen_by_state_and_code() -> None:
    seen = look(FINE, LOST, FINE, rows=[stop_row(0, "gap"), stop_row(1)], commands=[wished(Wish.PAUSE, 2)])
    assert len(resume(seen, accepts_loss=True).drafts) == 3
    paused = resume(seen, states={PartitionState.PAUSED})
    assert [each.where.partition for each in paused.drafts] == [2]
    gaps = resume(seen, codes={"gap"})
    assert [each.where.partition for each in gaps.drafts] == [0]


# -- remirror


def test_what_only_the_target_holds_is_shown_and_written() -> None:
    decision = remirror(look(LOST, FINE))
    (draft,) = decision.drafts
    assert (draft.where.partition, draft.wish, draft.target_topic_id) == (-1, Wish.REMIRROR, TOPIC_ID)
    assert (draft.loses, decision.destroys) == ({0: (0, 20)}, True)
    assert draft.shown[1:] == (
        "  partition 0 holds 20 offsets; offsets 0 to 19 (20) only here: lost",
        "  partition 1 holds 90 offsets; the source holds them all",
    )


@pytest.mark.parametrize(
    ("target", "source", "lost"),
    [
        ((0, 90), (0, 100), []),
        ((5, 90), (10, 100), [(5, 10)]),
        ((5, 90), (95, 100), [(5, 90)]),
        ((0, 90), (0, 60), [(60, 90)]),
        ((5, 90), (10, 60), [(5, 10), (60, 90)]),
        ((50, 90), (0, 40), [(50, 90)]),
        ((0, 0), (0, 5), []),
        ((7, 90), None, [(7, 90)]),
    ],
)
def test_lost_is_what_the_source_does_not_hold(
    target: tuple[int, int], source: tuple[int, int] | None, lost: list[tuple[int, int]]
) -> None:
    assert lost_of(span(*target), span(*source) if source else None) == lost


def test_what_may_differ_is_counted_as_lost_and_called_so() -> None:
    (draft,) = remirror(look(FINE, rows=[stop_row(code="foreign")])).drafts
    words = (
        "  partition 0 holds 90 offsets; offsets 0 to 89 (90) may differ from the source's: counted as lost"
    )
    assert draft.shown[1] == words


def test_where_a_partition_begins_again_is_shown() -> None:
    link = replace(LINK, policy=replace(LINK.policy, start="latest"))
    seen = look(sight((0, 100), (40, 90)))
    seen = replace(seen, snapshot=replace(seen.snapshot, link=link))
    (draft,) = remirror(seen).drafts
    assert (
        draft.shown[1] == "  partition 0 holds 50 offsets; the source holds them all; it begins at 40 again"
    )


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_of_a_topic_that_is_being_built_its_settings_for_that_are_not_restored(policy: str) -> None:
    """But what somebody had set before it was made anew."""
    final = {"cleanup.policy": "compact"}
    own = {**with_build(final), "cleanup.policy": policy, "segment.index.bytes": "9"}
    name = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
    row = Row(name=name, term=1, fields={"configs": {"segment.ms": "77"}})
    (draft,) = remirror(look(FINE, source_configs=final, target_configs=own, rows=[row])).drafts
    assert draft.details["restored"] == {"segment.index.bytes": "9", "segment.ms": "77"}


def test_of_a_source_that_was_cut_at_both_ends_the_command_says_what_is_kept() -> None:
    (draft,) = remirror(look(sight((10, 60), (5, 90)))).drafts
    assert (draft.loses, draft.keeps) == ({0: (5, 90)}, {0: (10, 60)})
    assert draft.details["lost"] == {"0": [[5, 10], [60, 90]]}


def test_groups_configs_and_further_partitions_are_shown() -> None:
    trace = TopicTrace(
        groups=TopicGroups(partitions={"billing": (0,)}, problem="broker 3 is away"), beyond={1: span(3, 8)}
    )
    seen = look(
        FINE, target_configs={"segment.bytes": "7", "min.insync.replicas": "1"}, traces={"orders": trace}
    )
    (draft,) = remirror(seen).drafts
    shown = "\n".join(draft.shown)
    assert "commits of 1 consumer group(s) with it: billing" in shown
    assert "could not be read: broker 3 is away" in shown
    assert "segment.bytes=7 was set by hand: restored" in shown
    assert "min.insync.replicas" not in shown  # as the mirror sets it itself
    assert "partition 1 holds 5 offsets; offsets 3 to 7 (5) only here: lost" in shown
    assert (draft.loses, draft.details["restored"]) == ({1: (3, 8)}, {"segment.bytes": "7"})


def test_a_topic_that_is_not_on_both_sides_is_not_mirrored_again() -> None:
    absent = remirror(look(PartitionSight(source=span(0, 9), source_end=9), has_target=False))
    assert "has no topic orders: there is nothing to delete" in absent.refusals[0].message
    gone = deciding.remirror(take_aim([LINK], ["gone"]), look(FINE), PartitionFilter())
    assert "has no topic gone" in gone.refusals[0].message
    unseen = PartitionSight(source=None, source_end=None, target=span(0, 5), unreadable="no leader")
    assert "orders:0: no leader" in remirror(look(unseen)).refusals[0].message


def test_a_topic_of_heliographs_own_is_never_deleted() -> None:
    odd = replace(LINK, naming="__heliograph_{topic}")
    seen = snapshot(source_topic("ledger", [FINE]), link=odd, targets=[target_topic("__heliograph_ledger")])
    aim = take_aim([odd], ["ledger"])
    decision = deciding.remirror(aim, look(FINE, snapshot_of=seen, told=None), PartitionFilter())
    assert "it is never deleted" in decision.refusals[0].message


def test_whole_topics_are_chosen_by_the_state_and_code_of_their_partitions() -> None:
    seen = look(FINE, FINE, rows=[stop_row(1, "foreign")])
    everything = take_aim([LINK], [], everything=True)
    assert deciding.topics_kept(everything, seen, PartitionFilter()) == ["orders"]
    assert deciding.topics_kept(everything, seen, PartitionFilter(codes={"foreign"})) == ["orders"]
    assert deciding.topics_kept(everything, seen, PartitionFilter(codes={"lost"})) == []
    assert deciding.topics_kept(take_aim([LINK], ["orders"]), seen, PartitionFilter()) == ["orders"]
    absent = look(PartitionSight(source=span(0, 9), source_end=9), has_target=False)
    assert (
        deciding.topics_kept(everything, absent, PartitionFilter()) == []
    )  # there is nothing to mirror again


def test_what_was_resumed_since_it_was_chosen_is_not_mirrored_again() -> None:
    foreign, everything = PartitionFilter(codes={"foreign"}), take_aim([LINK], [], everything=True)
    first, second = look(FINE, rows=[stop_row(0, "foreign")]), look(FINE)
    assert deciding.topics_kept(everything, first, foreign) == ["orders"]
    assert deciding.remirror(everything, second, foreign).drafts == ()
    mistyped = deciding.remirror(take_aim([LINK], ["typo"]), second, foreign)
    assert "has no topic typo" in mistyped.refusals[0].message


def test_a_topic_that_somebody_made_again_counts_as_lost_before_any_mirror_has_seen_it() -> None:
    name = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
    row = Row(name=name, term=1, fields={"source_topic_id": "", "target_topic_id": "the former one"})
    (draft,) = remirror(look(FINE, rows=[row])).drafts
    assert draft.loses == {0: (0, 90)}


def test_a_deleted_target_topic_is_not_mirrored_again_but_resumed() -> None:
    row = stop_row(code="recreated", target_topic_id="")
    gone = look(PartitionSight(source=span(0, 9), source_end=9), has_target=False, rows=[row])
    assert remirror(gone).refusals[0].hint == "to create it again: heliograph topics resume sf-to-nyc orders"


def test_single_partitions_are_not_mirrored_again() -> None:
    with pytest.raises(UsageError, match="only the whole topic") as refused:
        deciding.refuse_partitions(take_aim([LINK], ["orders:0"]), CommandLine())
    assert refused.value.hint == "heliograph topics remirror sf-to-nyc orders"
    deciding.refuse_partitions(take_aim([LINK], ["orders"]), CommandLine())
