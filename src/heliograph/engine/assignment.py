"""What goes over the control line about partitions: assignments as JSON and back, and what a lane tells of each."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from heliograph.copier.lane_clusters import LinkClusters
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.spec import CopySpec
from heliograph.engine.frames import Message
from heliograph.model.errors import PartitionStop
from heliograph.model.fill_way import FillWay
from heliograph.model.hints import hint_for
from heliograph.model.occurrence import Occurrence, of_stop, of_trouble
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.policy import LinkPolicy
from heliograph.model.states import StopReason

SPECS_PER_FRAME = 1000


def progress_of(copy: PartitionCopy, now: float) -> PartitionStatus:
    """How far a lane is with a partition; `now` by its event loop."""
    stop = copy.stopped
    return PartitionStatus(
        partition=copy.spec.partition,
        state=copy.state,
        next_offset=copy.next_offset,
        source_end=copy.source_end,
        records=copy.records,
        size_bytes=copy.size_bytes,
        reason=StopReason(stop.reason) if stop else None,
        error=stop.message if stop else None,
        hint=hint_for(copy.spec.partition, stop.hint) if stop else None,
        trouble=copy.trouble.message if copy.trouble else None,
        event=copy.trouble.event if copy.trouble else None,
        bound_by=copy.bound_by(now),
        aligning=copy.aligning(now),
        filled=copy.filled,
        filling_s=copy.filling_s,
    )


def occurrences_of(copy: PartitionCopy, at: datetime) -> list[Occurrence]:
    """What an operator is told of it: every trouble that has begun, its stop, and its notices; each is given once."""
    begun, notices, where = copy.take_begun(), copy.take_notices(), copy.spec.partition
    if not begun and not notices:
        return []  # nearly always: it is asked of every copy that moved, five times a second
    told = [
        of_stop(where, each, at, copy.next_offset)
        if isinstance(each, PartitionStop)
        else of_trouble(where, each, at, "; recovering")
        for each in begun
    ]
    return [*told, *(of_trouble(where, notice, at) for notice in notices)]


def encode_assignment(
    links: list[LinkClusters], specs: list[CopySpec], *, clear_in_s: float = 0.0, pid: int | None = None
) -> list[Message]:
    """The messages that give a lane these partitions: the clusters first, then the partitions in portions.

    `clear_in_s`: after that, whatever their last holder has sent is over. `pid`: the process that is meant; its
    successor of the same number is given its partitions anew.
    """
    portions = [specs[at : at + SPECS_PER_FRAME] for at in range(0, len(specs), SPECS_PER_FRAME)]
    return [
        {"type": "links", "links": [asdict(each) for each in links]},
        *(
            {
                "type": "assign",
                "partitions": [asdict(spec) for spec in portion],
                "clear_in_s": clear_in_s,
                "pid": pid,
            }
            for portion in portions
        ),
    ]


def decode_links(message: Message) -> list[LinkClusters]:
    return [LinkClusters(**each) for each in message["links"]]


def decode_specs(message: Message) -> list[CopySpec]:
    return [_decode_spec(row) for row in message["partitions"]]


def _decode_spec(row: Message) -> CopySpec:
    typed = {
        "partition": MirrorPartition(*row["partition"]),
        "policy": LinkPolicy.from_texts(row["policy"]),
        "accepted_loss": tuple(row["accepted_loss"]) if row["accepted_loss"] is not None else None,
        "fill_way": FillWay(row["fill_way"]),
    }
    return CopySpec(**{**row, **typed})
