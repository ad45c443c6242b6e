"""Partitions are put aside, and given to lanes again as a new plan has them; what is refused is written down."""

from __future__ import annotations

from heliograph.controller.plan import PausePartition, Plan
from heliograph.model.ledger import RowKind
from heliograph.model.states import PartitionState

from .command_scene import NAME, Scene, keys
from .observed import copy, partition, progress, refusal

P0, P1 = keys()


async def test_what_is_put_aside_is_free_on_return_and_keeps_where_it_stands() -> None:
    async with Scene() as scene:
        await scene.until(lambda: scene.is_held(0))
        scene.board.report(0, progress(P0, 7))
        await scene.restart.put_aside({P0: "paused by ann"})
        row = scene.board.rows[P0]
        assert (row.state, row.trouble, row.next_offset) == (PartitionState.PAUSED, "paused by ann", 7)
        assert scene.keeper.is_free(P0)
        assert scene.restart.is_idle(P0)
        assert not scene.restart.is_idle(P1)


async def test_only_what_is_asked_for_begins_and_refusals_are_written_down() -> None:
    async with Scene() as scene:
        await scene.until(lambda: len(scene.lanes.held) == 2)
        await scene.restart.put_aside(dict.fromkeys(keys(), "for a test"))
        todo = Plan(copies=(copy(P0), copy(P1)), refusals=(), creations=(), warnings=())
        assert scene.restart.begin(todo, [P0], scene.ledger) == {}
        await scene.until(lambda: scene.is_held(0))
        assert (scene.is_held(1), scene.state(1)) == (False, PartitionState.PAUSED)

        refused = refusal(P1)
        todo = Plan(copies=(), refusals=(refused,), creations=(), warnings=())
        assert scene.restart.begin(todo, [P1], scene.ledger) == {P1: refused.why}
        await scene.ledger.flush(5.0)
        (row,) = scene.rows(RowKind.STOP)
        assert (row.name.partition, (row.fields or {})["code"]) == (1, "foreign")
        assert scene.state(1) is PartitionState.STOPPED


async def test_what_is_taken_back_is_shown_as_it_was_until_it_begins() -> None:
    async with Scene() as scene:
        await scene.until(lambda: scene.is_held(0))
        await scene.stop(0)
        await scene.restart.take_back([P0])
        assert scene.keeper.is_free(P0)
        assert scene.state(0) is PartitionState.STOPPED
        wish = PausePartition(partition=P0, next_offset=5, goal=9, words="w")
        todo = Plan(copies=(), refusals=(), creations=(), warnings=(), paused=(wish,))
        scene.restart.begin(todo, [P0, partition(1, link=f"{NAME} of others")], scene.ledger)
        assert scene.state(0) is PartitionState.PAUSED
