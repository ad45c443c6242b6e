"""What faults strike at while gaps are filled and logs are aligned: a source with transactions and with logs that start
far above 0, three target brokers, and two runs of one link, of which one stands by.

Owns them all, what an independent client sees of how far the target is, and the rule that a fault strikes inside: of a
gap that is being filled, or of an alignment, while 20 to 80 % of the topic are copied. Must not know the faults.

    a topic with a gap:  │ committed │ aborted, half of it or more: the gap │ committed │ what comes meanwhile

Nobody reads past a transaction that is open: all is in the source's log when the long one is aborted. From then on a
target that ends inside of the gap is a gap that is being filled, however quick the machine is.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from heliograph.controller.topic_config import FORCED
from heliograph.lab.cluster import LabCluster

from .fault_scene import LEAST, MOST
from .judge import assert_identical
from .mirror_process import write_config
from .moved_log import create_moved_topic
from .pair_faults import Fault
from .quota import set_write_quota
from .replicas import create_assigned
from .steady_producer import SteadyProducer
from .steady_transactions import SteadyTransactions
from .struck_pair import COMMITTED, UNCOMMITTED, StruckPair, Where, bounds_of, settled_ends
from .topics import create_topic
from .transactions import TransactionalWriter
from .two_runs import TwoRuns

NODES = (1, 2, 3)
STARTS_PARTITIONS, GAP_PARTITIONS = 3, 2
STARTS_AT = range(25_000_000, 35_000_000)
# For each broker while the alignment is struck at: 60 KB are 100,000 offsets, so it takes two and a half minutes.
ALIGNED_BYTES_PER_S = 120_000
AROUND, GAP = 25_000, 100_000  # records of a partition before and after its gap; offsets of the gap
LONG_GAP = 700_000  # it takes longer to fill than another run takes to notice that the active one is gone
# Of a gap or an alignment, where a fault may begin, each at a part of its own in the first range: it must still be
# inside when it has struck.
FIRST_PARTS, LAST_PART = (0.22, 0.5), 0.7
OPEN_LIMIT_MS = 600_000  # a transaction that waits for its end must not be aborted by the source before

log = logging.getLogger(__name__)


class Inside(NamedTuple):
    """A partition whose target ends, or ended a moment ago, inside of these offsets. `of`: what they are."""

    where: Where
    offsets: range
    of: str


class GapScene:
    """Enter it: one run copies, the other stands by, and logs are being aligned."""

    def __init__(
        self, sources: LabCluster, targets: LabCluster, place: Path, name: str, *, seed: int, gaps: int
    ) -> None:
        self._sources = sources
        self._source, self._target = sources.bootstrap_servers, targets.bootstrap_servers
        self._dice = random.Random(seed)
        self._starts = f"{name}-starts"
        self._starts_at = self._dice.choice(STARTS_AT)
        self._gap_topics = [f"{name}-gap-{number}" for number in range(gaps)]
        self._unused = list(self._gap_topics)
        self._undo = contextlib.ExitStack()
        self._create_topics()
        config = write_config(place, source=self._source, target=self._target, topics=self.topics)
        self.runs = TwoRuns(config, place)
        self._pair = StruckPair(self.runs, targets)
        settings: dict[str, Any] = {
            "compression.type": "lz4",
            "transaction.timeout.ms": OPEN_LIMIT_MS,
            "queue.buffering.max.messages": LONG_GAP,
        }
        self._writers = [
            TransactionalWriter(self._source, name, **settings) for name in ("committing", "aborting")
        ]
        self._transactions = SteadyTransactions(self._source, self._partitions(self._starts), seed=seed)
        self._plain = SteadyProducer(self._source, self._starts, rate_per_s=50)

    def _create_topics(self) -> None:
        create_moved_topic(self._sources, self._starts, self._starts_at, partitions=STARTS_PARTITIONS)
        for topic in self._gap_topics:
            create_topic(self._source, topic, GAP_PARTITIONS)
        for topic in self.topics:
            replicas = [NODES[at:] + NODES[:at] for _, at in self._partitions(topic)]
            create_assigned(self._target, topic, replicas, FORCED)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.enter_context(self._transactions)
            undo.enter_context(self._plain)
            set_write_quota(self._target, ALIGNED_BYTES_PER_S)
            undo.enter_context(self.runs)
            self.runs.wait_whole()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.__exit__(kind, error, trace)

    @property
    def topics(self) -> list[str]:
        return [self._starts, *self._gap_topics]

    def _partitions(self, topic: str) -> list[Where]:
        count = STARTS_PARTITIONS if topic == self._starts else GAP_PARTITIONS
        return [Where(topic, number) for number in range(count)]

    def _share(self, topic: str) -> float:
        """How much of a topic is copied, by offsets."""
        wheres = self._partitions(topic)
        source, target = bounds_of(self._source, wheres), self._pair.bounds(*wheres)
        return sum(log.stop for log in target) / sum(log.stop for log in source)

    # -- where faults strike

    def strike_alignment(self, fault: Fault) -> None:
        wheres = self._partitions(self._starts)
        first_part = self._dice.uniform(*FIRST_PARTS)

        def look() -> list[Inside]:
            row_of = {where: self.runs.row(self.runs.active(), *where) for where in wheres}
            logs = dict(zip(wheres, self._pair.bounds(*wheres), strict=True))
            return [
                Inside(
                    where,
                    range(self._starts_at),
                    f"alignment ({aligning}), deleted up to {logs[where].start}",
                )
                for where in wheres
                if (aligning := row_of[where].get("aligning")) is not None
                and first_part * self._starts_at < logs[where].stop < LAST_PART * self._starts_at
                and logs[where].start > 0
            ]

        self._strike(fault, look)

    def strike_fill(self, fault: Fault, gap_offsets: int = GAP) -> None:
        topic = self._unused.pop()
        gaps = self._write_gaps(topic, gap_offsets)
        first_part = self._dice.uniform(*FIRST_PARTS)

        def look() -> list[Inside]:
            ends = [log.stop for log in self._pair.bounds(*gaps)]
            return [
                Inside(where, gap, f"gap [{gap.start}, {gap.stop})")
                for end, (where, gap) in zip(ends, gaps.items(), strict=True)
                if first_part * len(gap) < end - gap.start < LAST_PART * len(gap)
            ]

        _, aborting = self._writers
        self.runs.wait(
            lambda: all(
                log.stop == gap.start
                for log, gap in zip(self._pair.bounds(*gaps), gaps.values(), strict=True)
            ),
            "copy of what is before the gaps",
        )
        aborting.abort()
        self._strike(fault, look)

    def _write_gaps(self, topic: str, length: int) -> dict[Where, range]:
        """All but the end of the transaction that makes the gaps."""
        committing, aborting = self._writers
        wheres = self._partitions(topic)
        for where in wheres:
            committing.write(topic, AROUND, where.partition)
        committing.commit()
        starts = settled_ends(self.runs, self._source, wheres)
        for where in wheres:
            aborting.write(topic, length, where.partition)
        for where in wheres:
            committing.write(topic, AROUND, where.partition)
        committing.commit()
        self._transactions.also_to(wheres)
        return {where: range(start, start + length) for where, start in zip(wheres, starts, strict=True)}

    def _strike(self, fault: Fault, look: Callable[[], list[Inside]]) -> None:
        found: list[Inside] = []

        def is_inside() -> bool:
            found[:] = look()
            return bool(found) and self._share(found[0].where.topic) >= LEAST

        self.runs.wait(is_inside, "partition inside")
        where, offsets, of = found[0]
        share = self._share(where.topic)
        before = self._pair.bounds(where)[0].stop
        assert LEAST <= share <= MOST, f"{share:.0%} of {where.topic} copied"
        assert before in offsets, f"{where}: {before} is not inside of {of} any more"
        struck: list[int] = []

        def has_struck() -> None:
            after = self._pair.bounds(where)[0].stop
            struck.append(after)
            log.info(
                "%s: %s inside of %s, %.0f %% of the topic copied; the target ended at %d before and at %d after",
                fault.__name__,
                where,
                of,
                100 * share,
                before,
                after,
            )
            assert 0 < after - offsets.start < len(offsets), f"{where}: {after} is not inside of {of}"

        began_at = time.monotonic()
        fault(self._pair, where, has_struck)
        assert struck, "the fault did not say that it struck"
        self._pair.wait_whole(self.topics)
        log.info("%s: all is mended after %.0f s", fault.__name__, time.monotonic() - began_at)

    def let_alignment_be_quick(self) -> None:
        set_write_quota(self._target, None)

    # -- the end

    def finish(self) -> int:
        """All is copied, both runs end well, and both kinds of consumers read on the target what consumers of committed
        records read at the source. How many records there are."""
        committed = self._plain.stop() + self._transactions.stop() + sum(w.committed for w in self._writers)
        wheres = [where for topic in self.topics for where in self._partitions(topic)]
        ends = settled_ends(self.runs, self._source, wheres)
        self.runs.wait(lambda: [log.stop for log in self._pair.bounds(*wheres)] == ends, "identical ends")
        self.runs.finish()
        for view in (COMMITTED, UNCOMMITTED):
            assert_identical(
                self._source, self._target, self.topics, records=committed, isolations=(COMMITTED, view)
            )
        return committed
