"""Empty transactions under faults drawn by chance: holders that come and go, answers that are lost, transactions that
time out. Whatever happens, the target holds the source's committed records at their offsets (P2, P4)."""

from __future__ import annotations

import asyncio
import random

import pytest

from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.errors import Disconnected
from heliograph.model.fill_way import FillWay, transactional_id

from .lane_world import World, mirror, place, until, world
from .memory_transactions import MemoryTransactions
from .test_gaps import assert_committed_records, write_transactions

NAME = transactional_id("sf-id", "orders", 0)
ROUNDS = 12


class Faults:
    """Of the coordinator: half of an empty transaction may be all that is done, or nobody hears that it was."""

    def __init__(self, transactions: MemoryTransactions, chance: random.Random) -> None:
        self._transactions = transactions
        self._chance = chance
        self.met = 0
        transactions.begun, transactions.ended = self._begun, self._ended

    def _begun(self, name: str) -> None:
        self._draw(0.1)
        if (
            self._chance.random() < 0.05
        ):  # it is open for too long: the coordinator aborts it, and fences us off
            self.met += 1
            self._transactions.time_out(name)

    def _ended(self, _name: str) -> None:
        self._draw(0.1)

    def _draw(self, share: float) -> None:
        if self._chance.random() < share:
            self.met += 1
            raise Disconnected("the coordinator is gone")


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_every_record_has_its_offset(seed: int) -> None:
    chance = random.Random(seed)
    async with world() as it, world() as rival:
        it.create(0, 1)
        for ours, theirs in ((it.source, rival.source), (it.target, rival.target)):
            theirs.logs, theirs.leaders, theirs.believed = ours.logs, ours.leaders, ours.believed
        transactions = rival.target.transactions = it.target.transactions
        faults = Faults(transactions, chance)
        held: dict[int, tuple[World, PartitionCopy]] = {}
        for _ in range(ROUNDS):
            write_transactions(it.source.logs[place(0)], chance.randrange(1, 3))
            for number, each in enumerate((it, rival)):
                if number in held and chance.random() < 0.5:
                    del held[number]
                    await each.lane.revoke(mirror(0))
                if number not in held and chance.random() < 0.8:
                    held[number] = each, each.assign(0, fill_way=FillWay.TRANSACTIONS)
            await asyncio.sleep(chance.uniform(0, 0.02))
        transactions.begun = transactions.ended = lambda _name: None
        if not held:
            held[0] = it, it.assign(0, fill_way=FillWay.TRANSACTIONS)
        await until(lambda: it.is_copied(0), bound_s=20.0)
        transactions.time_out(NAME)  # nothing is left open that could be a marker later
        assert_committed_records(it)
        assert [copy.stopped for _, copy in held.values()] == [None] * len(held)
        assert faults.met, "nothing happened"
