"""Partitions that nobody copies are given to lanes again, as a new plan has them; or, if brokers have to clean them
first, to who waits for that (builds.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from heliograph.controller.board import Board
from heliograph.controller.lane_keeper import LaneKeeper
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.plan import CleanPartition, PausePartition, Plan, RefusePartition
from heliograph.controller.recorded_stops import rows_of_stops
from heliograph.model.admission import Refused
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import CONDITIONS, PartitionState


class Restart:
    """`clean`: takes partitions that brokers have to clean."""

    def __init__(
        self, board: Board, keeper: LaneKeeper, clean: Callable[[Iterable[MirrorPartition]], None]
    ) -> None:
        self._board = board
        self._keeper = keeper
        self._clean = clean

    def state(self, key: MirrorPartition) -> PartitionState:
        return self._board.rows[key].state

    def is_idle(self, key: MirrorPartition) -> bool:
        return self.state(key) in (PartitionState.STOPPED, PartitionState.PAUSED)

    async def put_aside(self, words: Mapping[MirrorPartition, str]) -> None:
        """Take these from their lanes; `words` say why they are not copied."""
        await self._keeper.release(list(words))
        rows = self._board.rows
        self._board.adopt_again(
            paused=[
                PausePartition(
                    partition=key, next_offset=rows[key].next_offset, goal=rows[key].source_end, words=why
                )
                for key, why in words.items()
            ]
        )

    async def put_to_cleaning(self, keys: Iterable[MirrorPartition]) -> None:
        """Take these from their lanes: brokers have to remove their fillers."""
        keys, rows = list(keys), self._board.rows
        await self._keeper.release(keys)
        self._board.adopt_again(
            cleaning=[
                CleanPartition(partition=key, next_offset=rows[key].next_offset, goal=rows[key].source_end)
                for key in keys
            ]
        )

    async def let_go(self, keys: Iterable[MirrorPartition]) -> None:
        """These are not mirrored any more."""
        keys = list(keys)
        await self._keeper.release(keys)
        self._keeper.forget(keys)
        self._board.remove(keys)

    def refuse(self, refusals: Iterable[RefusePartition]) -> None:
        """These stop; no lane has them."""
        self._board.adopt_again(refusals=refusals)

    async def take_back(self, keys: Iterable[MirrorPartition]) -> None:
        """The same of what is stopped or paused, and stays so until `begin`."""
        await self._keeper.release(list(keys))

    def begin(
        self, todo: Plan, keys: Iterable[MirrorPartition], ledger: LinkLedger | None
    ) -> dict[MirrorPartition, Refused]:
        """Give these to lanes; those that the plan refuses, which is written down, and why."""
        wanted = set(keys)
        copies = [copy for copy in todo.copies if copy.spec.partition in wanted]
        refusals = [each for each in todo.refusals if each.partition in wanted]
        paused = [each for each in todo.paused if each.partition in wanted]
        awaited = [each for each in todo.awaited if each.partition in wanted]
        cleaning = [each for each in todo.cleaning if each.partition in wanted]
        left = [each for each in todo.left if each.partition in wanted]
        self._board.adopt_again(copies, refusals, paused, awaited, cleaning, left)
        self._keeper.extend(copies, created={creation.topic for creation in todo.creations})
        self._clean([each.partition for each in cleaning])
        if ledger is not None:
            kept = [each for each in refusals if each.why.reason not in CONDITIONS]
            ledger.record(rows_of_stops(ledger, kept))
        return {each.partition: each.why for each in refusals}
