"""From an aim and what was seen to a decision: one function for each wish. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.model.command import Wish
from heliograph.model.errors import UsageError
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.states import PartitionState
from heliograph.operations.aim import Aim
from heliograph.operations.copying import decide_pauses, decide_resumptions
from heliograph.operations.decision import CommandLine, Decided, Decision, Draft, Refusal, Unchanged
from heliograph.operations.looking import LinkView
from heliograph.operations.remirroring import decide_remirrors
from heliograph.operations.views import PartitionView

_TO_RESUME = (PartitionState.STOPPED, PartitionState.PAUSED)


def pause(aim: Aim, seen: LinkView, filters: PartitionFilter) -> Decision:
    return _decision(aim, seen, Wish.PAUSE, [*_absent(aim, seen), *decide_pauses(_meant(aim, seen, filters))])


def resume(
    aim: Aim, seen: LinkView, filters: PartitionFilter, *, accepts_loss: bool, line: CommandLine
) -> Decision:
    """Of all partitions of a link those that run are not worth a word each."""
    meant = _meant(aim, seen, filters)
    if not aim.topics:
        meant = [view for view in meant if view.status.state in _TO_RESUME]
    decided = decide_resumptions(meant, accepts_loss=accepts_loss, line=line)
    return _decision(aim, seen, Wish.RESUME, [*_absent(aim, seen), *decided])


def refuse_partitions(aim: Aim, line: CommandLine) -> None:
    """A topic is deleted as a whole."""
    parts = [each for each in aim.topics if each.partitions is not None]
    if parts:
        raise UsageError(
            f"{parts[0]}: a single partition cannot be mirrored again, only the whole topic",
            hint=line.topics("remirror", aim.link.name, *(each.name for each in aim.topics)),
        )


def topics_kept(aim: Aim, seen: LinkView, filters: PartitionFilter) -> list[str]:
    """Of what is meant, the source topics of which a partition is kept: a topic is mirrored again as a whole."""
    if aim.topics and filters.is_empty:
        return [each.name for each in aim.topics]
    meant = [view for view in _meant(aim, seen, filters) if view.has_target or aim.topics]
    return list(dict.fromkeys(view.where.source_topic for view in meant))


def remirror(aim: Aim, seen: LinkView, filters: PartitionFilter) -> Decision:
    """Of topics that are kept by the look at which it is decided: since they were chosen one may have been resumed."""
    names, recorded = topics_kept(aim, seen, filters), seen.ledger.recorded
    decided = decide_remirrors(seen.snapshot, names, seen.traces, seen.unread, recorded)
    absent = [] if filters.is_empty else _absent(aim, seen)  # else it is said of each of them already
    return _decision(aim, seen, Wish.REMIRROR, [*absent, *decided])


def _meant(aim: Aim, seen: LinkView, filters: PartitionFilter) -> list[PartitionView]:
    return [view for view in seen.partitions if aim.means(view.where) and view.is_kept(filters)]


def _absent(aim: Aim, seen: LinkView) -> list[Decided]:
    """What was named and is not at the source."""
    have = {topic.name: topic.partitions for topic in seen.snapshot.sources}
    cluster = repr(aim.link.source)
    missing = [each.name for each in aim.topics if each.name not in have]
    numbers = [
        f"{each.name}:{number}"
        for each in aim.topics
        for number in sorted((each.partitions or frozenset()) - set(have.get(each.name, ())))
        if each.name in have
    ]
    return [
        *(Refusal(subject=name, message=f"cluster {cluster} has no topic {name}") for name in missing),
        *(Refusal(subject=name, message=f"cluster {cluster} has no partition {name}") for name in numbers),
    ]


def _decision(aim: Aim, seen: LinkView, wish: Wish, decided: Sequence[Decided]) -> Decision:
    return Decision(
        link=aim.link,
        source_cluster_id=seen.snapshot.source_cluster_id,
        wish=wish,
        drafts=tuple(each for each in decided if isinstance(each, Draft)),
        refusals=tuple(each for each in decided if isinstance(each, Refusal)),
        unchanged=tuple(each for each in decided if isinstance(each, Unchanged)),
    )
