"""What a lane tells of a partition."""

from __future__ import annotations

from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.resync import Synced
from heliograph.engine.copy_reports import progress_of
from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.position import Position
from heliograph.model.states import PartitionState, StopReason
from tests.copier.source_batches import spec_of


def test_progress_tells_why_a_partition_stopped_and_what_to_do() -> None:
    copy = PartitionCopy(spec_of(), 1)
    copy.synced(Synced(position=Position(source=5, target=5, sequence=5)))
    copy.interrupted(Trouble(Event.BROKER_AWAY, "broker-1 is gone"))
    assert progress_of(copy, 0.0).trouble == "broker-1 is gone"
    assert progress_of(copy, 0.0).next_offset == 5
    copy.stop(PartitionStop(StopReason.LOST, "what happened", hint="what to do"))
    told = progress_of(copy, 0.0)
    assert told.state is PartitionState.STOPPED
    assert (told.reason, told.error, told.hint) == ("lost", "what happened", "what to do")
