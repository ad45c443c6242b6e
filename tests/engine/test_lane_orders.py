"""What a lane tells its driver: how its partitions stand, and all that an operator must hear."""

from __future__ import annotations

import asyncio
from typing import cast

from heliograph.copier.lane import Lane
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.engine.lane_orders import LaneOrders, Links
from heliograph.engine.orders import Occurrences, Order, Report, Revoke, Stop
from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.occurrence import Occurrence
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason
from tests.copier.source_batches import PARTITION, spec_of, synced_at

RACED = Trouble(Event.RACED, "another copier had appended offset 5 before", 5, 8)
NOTICE = Trouble(Event.TARGET_TRUNCATED, "the target lost offsets [2, 5)", 2, 5)


class PlayedLane:
    """One copy, whose answers are all there. `at_end`: what happens to it while it is retired."""

    def __init__(self) -> None:
        self._moved: dict[PartitionCopy, None] = {}
        self.copies = {PARTITION: PartitionCopy(spec_of(), 1 << 20, moved=self._moved)}
        self.at_end: list[Trouble] = []

    def copy(self, key: MirrorPartition) -> PartitionCopy | None:
        return self.copies.get(key)

    def take_moved(self) -> list[PartitionCopy]:
        moved = [copy for copy in self._moved if copy in self.copies.values()]
        self._moved.clear()
        return moved

    def take_attempt_wants(self) -> list[tuple[MirrorPartition, int]]:
        return []

    async def revoke(self, key: MirrorPartition) -> bool:
        self._end()
        del self.copies[key]
        return True

    async def drain(self) -> bool:
        self._end()
        return True

    def _end(self) -> None:
        for copy in self.copies.values():
            for trouble in self.at_end:
                copy.interrupted(trouble)
            copy.retire()

    def wants_exclusion(self) -> list[str]:
        return []

    def lapse(self) -> None:
        return


class Story:
    def __init__(self) -> None:
        self.sent: list[Report] = []
        self.lane = PlayedLane()
        self.orders = LaneOrders(cast(Lane, self.lane), cast(Links, None), self.sent.append, pid=1)
        self.copy = self.lane.copies[PARTITION]
        self.copy.synced(synced_at(5))

    async def run(self, *orders: Order) -> list[str]:
        """Obey these, then end; the kinds of what was sent."""
        life = asyncio.create_task(self.orders.live(asyncio.get_running_loop().create_future()))
        for order in (*orders, Stop()):
            self.orders.hand_over(order)
            for _ in range(5):
                await asyncio.sleep(0)
        await life
        return [report.kind for report in self.sent]

    @property
    def told(self) -> list[Occurrence]:
        return [
            each for report in self.sent if isinstance(report, Occurrences) for each in report.occurrences
        ]


async def test_a_trouble_that_is_over_before_the_next_report_is_told() -> None:
    story = Story()
    story.copy.interrupted(RACED)
    story.copy.synced(synced_at(8))
    story.copy.trouble = None  # as if a batch had been copied meanwhile
    await story.run()
    (told,) = story.told
    assert told.words == "sf-to-nyc/orders:0: another copier had appended offset 5 before; recovering"
    assert told.where == {**PARTITION._asdict(), "first_offset": 5, "next_offset": 8}
    assert told.code is Event.RACED


async def test_what_a_copy_meets_while_it_is_let_go_is_told_before_it_is_gone() -> None:
    story = Story()
    story.lane.at_end = [RACED]
    kinds = await story.run(Revoke(partitions=(PARTITION,)))
    assert [each.code for each in story.told] == [Event.RACED]
    assert kinds.index("occurrences") < kinds.index("revoked")


async def test_what_a_copy_meets_at_the_lanes_end_is_told() -> None:
    story = Story()
    story.lane.at_end = [RACED]
    kinds = await story.run()
    assert [each.code for each in story.told] == [Event.RACED]
    assert kinds[-1] == "drained"


async def test_a_stop_and_a_notice_are_told_once_each() -> None:
    story = Story()
    story.copy.tell(NOTICE)
    story.copy.stop(PartitionStop(StopReason.CORRUPT, "a wrong checksum", hint="look at the disk"))
    await story.run()
    stop, notice = story.told
    assert stop.words == "sf-to-nyc/orders:0 is stopped: a wrong checksum (hint: look at the disk)"
    assert (stop.code, stop.first_offset, stop.next_offset) == (StopReason.CORRUPT, 5, None)
    assert notice.words == "sf-to-nyc/orders:0: the target lost offsets [2, 5)"
    assert (notice.first_offset, notice.next_offset) == (2, 5)
