"""Builds of compacted partitions under faults drawn by chance, in every step: holders that come and go, appends and
markers that are refused, lost, or executed late, leaders that move, sources that compact on, records so old that
brokers forget who wrote them. Whatever happens, all is filled in the end, the source's records are at their offsets,
and no filler is where brokers do not clean (P1, P2, P4)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from heliograph.cluster.markers import Marker
from heliograph.copier import building, resynchroniser, sealing
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.errors import Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import DEFAULT_POLICY, OnLoss, Oversize
from heliograph.wire.batch import Codec
from heliograph.wire.compare_dense import dense_difference
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.filler import last_filler_offset
from heliograph.wire.kernels.loading import Kernels, wait
from tests.wire.batches import ABORT, COMMIT, TRANSACTIONAL, make_control_batch

from .lane_world import World, mirror, place, until, world
from .memory_cluster import Permit, Request
from .memory_log import MemoryLog
from .source_batches import NOW_MS, NOW_S, OLD_MS, batch, holed
from .test_losses import Teller

ROUNDS = 25
FLIGHT_S = 0.06
LATE_S = 0.04  # at the most: then whoever waits for it is not sure yet that it is over
FRESH_MS = NOW_MS - 3_600_000  # old enough for the last marker (copier/sealing.py)
BIG_BYTES, MOST_BYTES = 2000, 1000
TAIL = 6  # batches behind the last hole


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Kernels:
    return wait()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a build takes many, and no margin for clocks: there is one only."""
    monkeypatch.setattr(building, "MOST_OFFSETS", 13)
    monkeypatch.setattr(sealing, "CLOCKS_DIFFER_MS", 0)
    monkeypatch.setattr(resynchroniser, "TIME_LOOK_S", 0.01)
    monkeypatch.setattr(resynchroniser, "RETRY_MAX_S", 0.05)


class Source:
    """A log with all that there may be in one, and what becomes of it."""

    def __init__(self, log: MemoryLog, chance: random.Random, *, big: bool) -> None:
        self.log = log
        self.big_at: set[int] = set()
        self._chance = chance
        log.end = log.start = chance.choice((0, 0, 5, 40))
        for _ in range(chance.randrange(8, 25)):
            self._write(big=big)
        log.leave_out(chance.choice((1, 1, 2, 20)))
        self.hole_end = log.end
        for _ in range(TAIL):
            log.store(batch(log.end, 2, timestamp=FRESH_MS))

    def _write(self, *, big: bool) -> None:
        log, chance = self.log, self._chance
        how = {
            "timestamp": chance.choice((OLD_MS, FRESH_MS)),
            "codec": chance.choice((Codec.NONE, Codec.GZIP)),
        }
        what = chance.random()
        if what < 0.35:  # some of them longer than a step
            log.store(batch(log.end, chance.choice((1, 8, 20, 40)), **how))
        elif what < 0.6:
            log.store(holed(log.end, [0, 2, 3][: chance.randrange(4)], chance.randrange(4, 9), **how))
        elif what < 0.75:
            log.leave_out(chance.randrange(1, 30))
            log.store(batch(log.end, 1, **how))
        elif what < 0.9:
            self._write_transaction(commits=chance.random() < 0.5)
        elif big:
            self.big_at.add(log.end)
            log.store(batch(log.end, value_bytes=BIG_BYTES, timestamp=how["timestamp"]))

    def _write_transaction(self, *, commits: bool) -> None:
        log, producer_id = self.log, 7000 + len(self.log.batches)
        if not commits:
            log.aborted.append((producer_id, log.end))
        log.store(batch(log.end, 3, timestamp=OLD_MS, producer_id=producer_id, attributes=TRANSACTIONAL))
        kind = COMMIT if commits else ABORT
        log.store(make_control_batch(kind, producer_id=producer_id, timestamp=OLD_MS))

    def compact(self) -> None:
        """A batch in front of the last hole goes as a whole, as if later ones had its keys."""
        plain = [
            stored
            for stored in self.log.batches[:-TAIL]
            if not stored.header.is_transactional and stored.header.base_offset not in self.big_at
        ]
        if plain:
            self.log.batches.remove(self._chance.choice(plain))

    def delete_some(self) -> None:
        """Retention, which stays in front of the last hole."""
        before = self.log.start + self._chance.randrange(1, 12)
        if before < self.hole_end - 1:
            self.log.delete_before(before)


class Faults:
    """Of the target: what is sent is refused, or nobody hears what became of it; it may be executed all the same,
    later."""

    def __init__(self, it: World, chance: random.Random) -> None:
        self._it = it
        self._chance = chance
        self._write = it.target.write_markers
        self.share = 0.15
        it.target.fault = self._fault
        it.target.write_markers = self._write_markers  # type: ignore[method-assign]

    def _draw(self) -> bool:
        return self._chance.random() < self.share

    def _fault(self, _where: TopicPartition) -> int | None:
        refusals = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return self._chance.choice(refusals) if self._draw() else None

    async def _write_markers(
        self, node: int, markers: Sequence[Marker], permit: Permit
    ) -> dict[tuple[TopicPartition, int], int]:
        if not self._draw():
            return await self._write(node, markers, permit)
        if self._chance.random() < 0.5 and permit():
            self._later(self._mark, markers)
        raise Disconnected("the broker is gone")

    def _mark(self, markers: Sequence[Marker]) -> None:
        for marker in markers:
            self._it.target.logs[marker.where].write_marker(marker.label)

    async def lose_answers(self) -> None:
        """Of what is sent while the brokers stand still."""
        self._it.target.frozen |= {1, 2}
        await asyncio.sleep(self._chance.uniform(0, 0.01))
        for line in self._it.target.lines(1) + self._it.target.lines(2):
            for request in line.lose_answers():
                if self._chance.random() < 0.5 and request.permit():
                    self._later(self._execute, request)
        for node in (1, 2):
            self._it.target.thaw(node)

    def _execute(self, request: Request) -> None:
        for where, data in request.batches:
            self._it.target.logs[where].append(memoryview(bytearray(data)))

    def _later(self, do: Callable[..., object], *what: object) -> None:
        asyncio.get_running_loop().call_later(self._chance.uniform(0, LATE_S), do, *what)


class Scene:
    def __init__(self, it: World, chance: random.Random, source: Source, **spec: Any) -> None:
        self._it = it
        self._chance = chance
        self._source = source
        self._spec = spec
        self._clear = True  # nothing of the last holder can come any more
        self.faults = Faults(it, chance)
        self.copy: PartitionCopy | None = None

    def hold(self) -> PartitionCopy:
        if self.copy is None:
            self.copy = self._it.assign(
                0,
                clear_in_s=0.0 if self._clear else FLIGHT_S,
                builds=True,
                source_compacts=True,
                **self._spec,
            )
        return self.copy

    async def let_go(self) -> None:
        if self.copy is not None:
            assert self.copy.stopped is None
            self._clear = await self._it.lane.revoke(mirror(0))
            self.copy = None

    async def happen(self) -> None:
        what = self._chance.random()
        if what < 0.25:
            await self.let_go()
        elif what < 0.45:
            await self.faults.lose_answers()
        elif what < 0.6:
            await self._move(self._it.target)
        elif what < 0.75:
            await self._move(self._it.source)
        elif what < 0.85:
            self._source.compact()
        elif self._spec["policy"].on_loss is OnLoss.CONTINUE:
            self._source.delete_some()

    async def _move(self, cluster: Any) -> None:
        cluster.move(place(0), self._chance.choice((1, 2)))
        await cluster.refresh()


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_happens_all_is_filled_and_every_record_has_its_offset(
    seed: int, kernels: Kernels
) -> None:
    await build(kernels, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 300))
async def test_whatever_else_happens_all_is_filled_and_every_record_has_its_offset(
    seed: int, kernels: Kernels
) -> None:
    await build(kernels, seed)


async def build(kernels: Kernels, seed: int) -> None:
    chance = random.Random(seed)
    skips, loses = chance.random() < 0.4, chance.random() < 0.4
    policy = replace(
        DEFAULT_POLICY,
        oversize=Oversize.SKIP if skips else Oversize.STOP,
        on_loss=OnLoss.CONTINUE if loses else OnLoss.STOP,
    )
    async with world(flight_ms=int(FLIGHT_S * 1000)) as it:
        it.create(0)
        source = Source(it.source.logs[place(0)], chance, big=skips)
        limits = {"max_batch_bytes": MOST_BYTES} if skips else {}
        scene, driver = Scene(it, chance, source, policy=policy, **limits), Teller(it)
        for _ in range(ROUNDS):
            driver.grant()
            scene.hold()
            await asyncio.sleep(chance.uniform(0, 0.015))
            await scene.happen()
        scene.faults.share = 0.0
        copy = scene.hold()

        def filled() -> bool:
            driver.grant()
            aligning = copy.aligning(NOW_S)
            assert copy.stopped is None
            return aligning is not None and aligning.phase == "filled"

        await until(filled, bound_s=20.0)
        judge(kernels, source, it.target.logs[place(0)])


def judge(kernels: Kernels, source: Source, target: MemoryLog) -> None:
    log, end = source.log, target.end
    if (
        end == target.start
    ):  # a loss has left nothing to fill: it is aligned to where the source starts by now
        assert end == log.start
        return
    assert end == source.hole_end
    markers = {stored.header.base_offset for stored in target.batches if stored.header.is_control}
    left_out = {offset for offset in source.big_at if offset >= max(log.start, target.start)}
    assert markers - {end - 1} >= left_out
    aborted = {producer_id for producer_id, _ in log.aborted}
    theirs = [
        (stored.header, memoryview(stored.data))
        for stored in log.batches
        if stored.header.base_offset not in source.big_at and stored.header.base_offset < end
    ]
    holes = {header.base_offset for header, _ in theirs if header.producer_id in aborted}
    ours = memoryview(b"".join(stored.data for stored in target.batches))
    first = max(log.start, target.start)
    assert (
        dense_difference(kernels, ours, theirs, first_offset=first, next_offset=end - 1, holes=holes) is None
    )
    fillers = [
        offset
        for stored in target.batches
        if (offset := last_filler_offset(kernels, stored.header, memoryview(stored.data))) is not None
    ]
    assert not fillers or target.segment_end(max(fillers)) < end
