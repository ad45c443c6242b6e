"""How far a search that reads a log backwards goes with its next step: twice as far as with the last one, while the
answer can be expected to stay small.

An answer holds all batches of the offsets that were asked for, however large they are. The first step is one offset,
and so one batch; from then on, how many bytes the last step had tells how many the next one will have.
"""

from __future__ import annotations

from heliograph.cluster.log_reads import Batches

FIRST_OFFSETS = 1
MOST_OFFSETS = 1 << 17  # where a log holds next to nothing: what comes before it may be full of records
MOST_BYTES = 4 << 20  # to be expected of an answer; of the smallest batches that is 60,000


def next_step(offsets: int, answer: Batches) -> int:
    """How many offsets to ask for after an answer that covered so many."""
    size_bytes = sum(map(len, answer.views))
    affordable = offsets * MOST_BYTES // max(size_bytes, 1)
    return max(1, min(2 * offsets, affordable, MOST_OFFSETS))
