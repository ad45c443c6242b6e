"""Whether a marker without a label of ours was written by an empty transaction of ours. Sans I/O.

Such a marker carries the producer id that the transactions' coordinator gave to the partition's transactional id. The
coordinator tells it to whoever fences others off, and it stays the same; but not for ever:

- a transactional id that nobody uses for `transactional.id.expiration.ms`, 7 days, is forgotten, and gets another
  producer id. A topic with transactions ends with a marker: without more, every mirror of one that was idle for a week
  would stop. By then the *leader* has forgotten the old producer id, too (`producer.id.expiration.ms`, a day from the
  marker's time). So a marker of an id that is not the present one is ours only if the leader does not remember that id:
  whoever has written here within a day, and is not us, is a stranger;
- after 32,767 holders the coordinator gives another id at once. If a gap is the last thing on the target then, the
  partition stops, for a day.

An abort of an id that brokers give out, of a writer that nobody remembers, could be a stranger's still. It does no
harm: where it stands the source must hold nothing to copy (copier/tail.py), and the target is as it would be with ours.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from heliograph.wire.control_batch import ControlMarker, MarkerKind

CHOSEN_FROM = 1 << 56  # ids above are chosen by who uses them, us or others; brokers count up from 0


class OwnMarkers(NamedTuple):
    """`producer_id`: of the partition's transactional id; None: nobody has asked. `remembered`: all that the target's
    leader remembers."""

    producer_id: int | None
    remembered: Collection[int]

    def holds(self, marker: ControlMarker) -> bool:
        if self.producer_id is None or marker.kind is not MarkerKind.ABORT:
            return False
        if marker.producer_id == self.producer_id:
            return True
        return 0 <= marker.producer_id < CHOSEN_FROM and marker.producer_id not in self.remembered
