"""The last filler of a target partition: whether its cleaner has removed them all, or up to where it has not. Sans I/O.

    │ f f 7 f f f │ f f f 16 │ 17 18 │ 19 │ ... │        f a filler (wire/filler.py), alone or among records
                        ▲ the last one

Read backwards, batch by batch: a filler may be anywhere among the records of a batch.
"""

from __future__ import annotations

from heliograph.cluster.log_reads import Batches
from heliograph.copier.backward_steps import FIRST_OFFSETS, next_step
from heliograph.copier.questions import Asking, ReadTargetBatches
from heliograph.wire.filler import last_filler_offset
from heliograph.wire.kernels.loading import Kernels


def last_filler(kernels: Kernels, first_offset: int, next_offset: int) -> Asking[int | None]:
    """The highest offset of [first_offset, next_offset) that holds one; None: there is none. `next_offset` is the high
    watermark at the most: above it nothing is shown. A batch that cannot be read is a `CorruptBatch`."""
    at, step = next_offset, FIRST_OFFSETS  # no filler from here on
    while at > first_offset:
        end, step_first = at, max(at - step, first_offset)
        answer = yield ReadTargetBatches(step_first, end)
        assert isinstance(answer, Batches)
        for header, view in zip(reversed(answer.headers), reversed(answer.views), strict=True):
            found = last_filler_offset(
                kernels, header, view, first_offset=first_offset, next_offset=next_offset
            )
            if found is not None:
                return found
            at = header.base_offset
        at = min(at, step_first)
        step = next_step(end - at, answer)
    return None
