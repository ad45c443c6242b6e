"""What stands in for production code where planted.py switches a rule off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heliograph.cluster.log_reads import LogSpan
from heliograph.cluster.producer_states import ProducerState
from heliograph.controller.link_roles import LinkRoles
from heliograph.controller.placement import Placement
from heliograph.copier import resync
from heliograph.copier.batches import Append, SourceBatch
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.copier.questions import Asking, ReadProducers, ReadTargetLog, Unsettled
from heliograph.copier.sender import Sender
from heliograph.copier.spec import CopySpec
from heliograph.model.admission import Admitted, PartitionFacts, Refused, admit_partition
from heliograph.model.errors import HeliographError
from heliograph.model.position import SEQUENCES
from heliograph.wire.batch import read_header
from heliograph.wire.fetch import FetchWant
from heliograph.wire.runs import Run


def settled_once(_spec: CopySpec) -> Asking[tuple[Mapping[int, ProducerState], LogSpan]]:
    while True:
        producers = yield ReadProducers()
        target = yield ReadTargetLog()
        assert isinstance(producers, Mapping)
        assert isinstance(target, LogSpan)
        if target.high_watermark == target.end:
            return producers, target
        yield Unsettled()


def settled_to_the_high_watermark(
    spec: CopySpec,
) -> Asking[tuple[Mapping[int, ProducerState], LogSpan]]:
    questions, answer = _settled(spec), None
    while True:
        try:
            question = questions.send(answer)
        except StopIteration as done:
            settled: tuple[Mapping[int, ProducerState], LogSpan] = done.value
            return settled
        answer = yield question
        if isinstance(answer, LogSpan):
            answer = replace(answer, end=answer.high_watermark)


_settled = resync._settled


def compare_nothing(*_: object) -> Asking[int]:
    return -1
    yield Unsettled()


def admit_any_writer(facts: PartitionFacts) -> Admitted | Refused:
    last = facts.last_batch
    ours = None if last is None else replace(last, producer_id=facts.producer_id)
    return admit_partition(replace(facts, last_batch=ours))


def admit_any_sequence(facts: PartitionFacts) -> Admitted | Refused:
    last = facts.last_batch
    ours = None if last is None else replace(last, last_sequence=(facts.target_end - 1) % SEQUENCES)
    return admit_partition(replace(facts, last_batch=ours, last_sequence=None))


def stream_at_once(copy: PartitionCopy, found: resync.Synced, now_ms: int | None = None) -> None:
    _synced(copy, found, now_ms)
    if copy.phase is Phase.PROBE:
        copy.phase = Phase.STREAM


def peek_many(copy: PartitionCopy) -> SourceBatch | None:
    head = copy._waiting.head
    may = copy.phase is Phase.STREAM or (copy.phase is Phase.PROBE and not copy._in_flight)
    return head if may and head is not None and (copy.clear or not head.perishable) else None


def take_and_go_on(copy: PartitionCopy, room_bytes: int = 0) -> Append:
    phase = copy.phase
    outgoing = _take(copy, room_bytes)
    copy.phase = phase
    return outgoing


def advance_to_stream(copy: PartitionCopy, outgoing: Append) -> None:
    _advance(copy, outgoing)
    if copy.phase is Phase.PROBE:
        copy.phase = Phase.STREAM


def believe_any_offset(copy: PartitionCopy, _base_offset: int, append_time: int = -1) -> None:
    _appended(copy, copy._in_flight[0].start.target, append_time)


def send_again(copy: PartitionCopy, problem: HeliographError, now: float) -> None:
    if copy.phase in (Phase.PROBE, Phase.STREAM) and len(copy._in_flight) == 1:
        append = copy._in_flight.popleft()
        header = read_header(append.batch)._replace(base_offset=append.start.source)
        run = Run(header, 1, append.batch, False, False, append.perishable)
        copy._waiting._batches.appendleft(SourceBatch(run, append.hold))
        copy._sending, copy._waiting._way = append.start, None
    else:
        _lost(copy, problem, now)


_take, _synced, _advance = PartitionCopy.take, PartitionCopy.synced, PartitionCopy._advance
_appended, _lost = PartitionCopy.appended, PartitionCopy.lost


def true(*_: object) -> bool:
    return True


def want_without_epochs(
    topic: str,
    partition: int,
    next_offset: int,
    max_bytes: int,
    _epoch: int,
    _last_epoch: int,
    topic_id: bytes,
) -> FetchWant:
    return FetchWant(topic, partition, next_offset, max_bytes, topic_id=topic_id)


def sender_without_permit(sender: Sender, *what: Any, **how: Any) -> None:
    _make_sender(sender, *what, **how)
    if not sender._name.careful:
        sender._permit = _ask_nobody


def _ask_nobody() -> bool:
    return True


_make_sender = Sender.__init__


def grants_without_right(roles: LinkRoles) -> dict[str, float]:
    """The word of a driver that may not be the active one; of a right so short that no old record goes."""
    return {link: max(lasts_s, 1e-9) for link, lasts_s in _grants(roles).items()}


_grants = LinkRoles.grants


def free_at_once(placement: Placement, *what: Any, **how: Any) -> None:
    _lane_gone(placement, *what, **how)
    for place in placement._places.values():
        place.free_at = float("-inf")


_lane_gone = Placement.lane_gone
