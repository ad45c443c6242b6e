"""What stands in for production code where planted_merging.py lets it merge wrongly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heliograph.copier.batches import Append
from heliograph.copier.budget import ByteBudget, Hold, Share, hold_merged
from heliograph.copier.merging import Merging
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.source_queue import SourceQueue
from heliograph.model.position import Position
from heliograph.wire.batch import split_batches
from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.merge import goes_on
from heliograph.wire.merge_plain import Joined, join_plain
from heliograph.wire.runs import Run


def join_as_they_are(
    _kernels: Kernels, runs: Sequence[Run], limit_bytes: int, _max_records: int
) -> Joined | None:
    """The first run's records behind each other, each numbered as in the batch that it came from."""
    first = runs[0]
    parts = [batch[HEADER_BYTES:] for _, batch in split_batches(first.view)]
    joined = memoryview(bytearray(HEADER_BYTES) + b"".join(parts))
    header = first.header
    if len(joined) > limit_bytes:
        return None
    return Joined(
        joined, first.batches, header.records_count, header.base_timestamp, header.max_timestamp, 1, None
    )


def join_from_another_time(*what: Any) -> Joined | None:
    joined = join_plain(*what)
    return joined and joined._replace(base_timestamp=joined.base_timestamp + 1)


def goes_on_without(*checks: str) -> Callable[[Run, Run], bool]:
    """Runs go together whatever these fields of their headers are."""

    def goes_on_all_the_same(last: Run, run: Run) -> bool:
        alike = {
            "base_offset": last.header.next_offset,
            "attributes": last.header.attributes,
        }
        header = run.header._replace(**{name: alike[name] for name in checks})
        return goes_on(last, run._replace(header=header))

    return goes_on_all_the_same


def merge_without_limit(
    merging: Merging, waiting: SourceQueue, start: Position, _room_bytes: int, share: Share | None
) -> Append | None:
    merging._limit_bytes = 1 << 20
    return _take(merging, waiting, start, 1 << 20, share)


def stop_at_merged(copy: PartitionCopy, code: int, message: str) -> None:
    # One record, too: a batch of several is split when it is refused as too large.
    first = copy._in_flight[0]
    copy._in_flight[0] = first._replace(
        batches=1, records=1, end=first.start.after(source_offsets=1, records=1)
    )
    _refused(copy, code, message)


def hold_nothing(budget: ByteBudget, _size_bytes: int, share: Share | None) -> Hold:
    return hold_merged(budget, 0, share)


def differs_at_once(
    _view: memoryview, _batches: object, first_offset: int, _next_offset: int, _allowed: object
) -> int:
    return first_offset


_take, _refused = Merging.take, PartitionCopy.refused
