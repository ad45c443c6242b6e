"""Whether partitions may be paused, or resumed, and what that costs. Pure.

Pausing loses nothing by itself: the source's retention may, later, and the operator is told when. Resuming loses
something only where the source's records are gone already; then the offsets are shown, and written into the command,
so that a mirror that finds more of them gone refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.model.admission import MOST_LOST_OFFSETS
from heliograph.model.command import Wish
from heliograph.model.hints import topics_line
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import PartitionState, StopReason
from heliograph.operations.decision import CommandLine, Decided, Draft, Refusal, Unchanged, offsets
from heliograph.operations.views import PartitionView, Retention


def decide_pauses(views: Iterable[PartitionView]) -> list[Decided]:
    return [_cannot(view) or _pause(view) for view in views]


def _pause(view: PartitionView) -> Decided:
    if view.word.pause is not None:
        pause = view.word.pause
        when = pause.at.isoformat(timespec="seconds")
        return Unchanged(subject=view.name, message=f"is paused already, by {pause.author} at {when}")
    warning = retention_warning(view.status, view.retention)
    shown = (f"{view.name}: {warning}",) if warning else ()
    return Draft(where=view.where, target_topic_id=view.target_topic_id, wish=Wish.PAUSE, shown=shown)


def retention_warning(status: PartitionStatus, retention: Retention) -> str | None:
    """When the source begins to delete what is not copied yet."""
    warnings = []
    if retention.keeps_ms is not None:
        kept = duration(retention.keeps_ms)
        left_ms = retention.keeps_ms - (status.lag_ms or 0)
        if not status.lag_ms:
            warnings.append(f"the source keeps records for {kept}: after that what is not copied is lost")
        elif left_ms > 0:
            warnings.append(
                f"the source keeps records for {kept}: in {duration(left_ms)} it may delete what is not copied"
            )
        else:
            warnings.append(
                f"the source keeps records for {kept}: it may delete what is not copied any time now"
            )
    if retention.keeps_bytes is not None:
        warnings.append(
            f"the source keeps {retention.keeps_bytes:,} bytes of it: what is not copied may go sooner"
        )
    return "; ".join(warnings) or None


def decide_resumptions(
    views: Iterable[PartitionView], *, accepts_loss: bool, line: CommandLine
) -> list[Decided]:
    return [_unread(view) or _resume(view, accepts_loss, line) for view in views]


def _resume(view: PartitionView, accepts_loss: bool, line: CommandLine) -> Decided:
    if view.status.state is PartitionState.UNKNOWN:
        # What every plan finds anew is not written down: a mirror on another machine may have stopped for it.
        unseen = f"{view.name}: no stop is recorded, and no mirror of this machine can be asked: resumed if it stopped"
        return Draft(
            where=view.where, target_topic_id=view.target_topic_id, wish=Wish.RESUME, shown=(unseen,)
        )
    if view.status.state not in (PartitionState.STOPPED, PartitionState.PAUSED):
        # A running mirror stops where its target topic was deleted, and creates it again when it is resumed.
        unchanged = Unchanged(subject=view.name, message="is not stopped or paused")
        return unchanged if view.has_target else _nowhere(view)
    if view.code == StopReason.LOST:
        return _resume_lost(view, accepts_loss, line)
    stopped = f"{view.name}: stopped with {view.code}: {view.status.error}" if view.code else None
    return Draft(
        where=view.where,
        target_topic_id=view.target_topic_id,
        wish=Wish.RESUME,
        stop=view.code,
        shown=(stopped,) if stopped else (),
    )


def _resume_lost(view: PartitionView, accepts_loss: bool, line: CommandLine) -> Decided:
    lost = view.lost_now
    if lost is None:
        why = view.sight.unreadable or "its offsets are not known"
        return Refusal(subject=view.name, message=f"what is lost cannot be said now: {why}", hint="try again")
    count = lost[1] - lost[0]
    if count > MOST_LOST_OFFSETS:
        return Refusal(
            subject=view.name,
            message=f"{offsets(*lost)} are lost: more than {MOST_LOST_OFFSETS:,} cannot be skipped in one partition",
            hint=line.topics("remirror", view.where.link, view.where.source_topic),
        )
    if count and not accepts_loss:
        return Refusal(
            subject=view.name,
            message=f"{offsets(*lost)} are lost: the source holds them no more, and they were not copied",
            hint=line.topics("resume", view.where.link, view.name, options=["--accept-loss"]),
        )
    return Draft(
        where=view.where,
        target_topic_id=view.target_topic_id,
        wish=Wish.RESUME,
        stop=view.code,
        loses={view.where.partition: lost} if count else {},
        shown=(f"{view.name}: {offsets(*lost)} are lost for ever",) if count else (),
        destroys=bool(count),
        details={"lost": [list(lost)] if count else []},
    )


def _unread(view: PartitionView) -> Refusal | None:
    unread = view.word.unread
    return Refusal(subject=view.name, message=unread) if unread is not None else None


def _cannot(view: PartitionView) -> Refusal | None:
    return _unread(view) or (None if view.has_target else _nowhere(view))


def _nowhere(view: PartitionView) -> Refusal:
    link, topic = view.where.link, view.where.source_topic
    created = topics_line("resume", link, topic) if view.word.stop else "`heliograph plan` says how"
    return Refusal(
        subject=view.name,
        message=f"the target has no partition {view.where.target}: nothing is mirrored to it",
        hint=f"leave the topic out by links.{link}.exclude, or have it created first: {created}",
    )


_UNITS = (("day", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def duration(span_ms: int) -> str:
    """In its two largest units: 1 h 10 min."""
    rest, parts = max(span_ms // 1000, 0), []
    for unit, seconds in _UNITS:
        count, rest = divmod(rest, seconds)
        if count:
            parts.append(f"{count} {unit}s" if unit == "day" and count > 1 else f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "less than 1 s"
