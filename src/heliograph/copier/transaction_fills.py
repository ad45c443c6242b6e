"""Fills gaps with empty transactions, one for each offset (cluster/empty_transactions.py), and reads the log's end.

The second way, for who may not write markers: slower, and not exact by itself. The rules, each paid for:

- *every holder of the partition fences the former ones off before its first append*, whether it meets a gap or not, and
  again after every outcome that is not known; the log's end is read after it (copier/resync.py). Else what a former
  holder had begun, and did not live to end, is a marker that its coordinator appends up to 20 s later, in between
  records of ours;
- a fill is a barrier, as with markers: all before it is acknowledged, one transaction goes at a time, the log's end
  is read after each. An end that is further is looked at as after a fault: a coordinator that heard nothing of the
  leader has a marker appended twice. Within a gap that is one offset less to fill; behind it the partition stops;
- all that is not a plain success counts as unknown: then nothing is sent, not even an append, before the target was
  asked under a new producer.

Two holders at once (a lane that nobody can reach goes on for 30 s) fence each other off, and both ask the target; a
transaction is executed only for who was let in last, and has read the log's end since then: no offset is filled twice.
No attempt of the driver's is needed, but for a loss (copier/losses.py). It is asked to write down all the same that
there were gaps, and nobody waits for that: sequence numbers lag behind offsets from then on, also for who copies the
partition by markers later.

What this cannot do: nothing compares markers of the two ways, and a run that writes markers does not fence off. If the
way of a link changes while the run before was cut off and not stopped, the last marker of that one may come late. The
partition then stops (`wrong_place` or `anchor`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from heliograph.copier.fill import Fill
from heliograph.copier.fill_clock import FillClock
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.recovery import stop_for_transactions
from heliograph.copier.route import Route
from heliograph.model.errors import BrokerRefused, PartitionStop, ProtocolError, RequestFailed
from heliograph.model.events import Event, Trouble
from heliograph.model.fill_way import transactional_prefix
from heliograph.model.hints import AFTER_LINE
from heliograph.model.states import StopReason


async def fill_by_transactions(
    route: Route,
    node: int,
    fill: Fill,
    permit: Callable[[], bool],
    on_change: Callable[[PartitionCopy], None],
    clock: FillClock,
) -> None:
    """`node`: the partition's leader at the target. `on_change(copy)` is called when the fill is over."""
    copy = route.copy
    with clock.running(copy, fill):
        await _fill_and_tell(route, node, fill, permit)
    on_change(copy)


async def _fill_and_tell(route: Route, node: int, fill: Fill, permit: Callable[[], bool]) -> None:
    copy = route.copy
    problem = await _fill(route, node, fill, permit)
    if problem is None:
        copy.fill_over()
    else:
        copy.fill_over(problem, stale=True, lost_at=asyncio.get_running_loop().time())


async def _fill(
    route: Route, node: int, fill: Fill, permit: Callable[[], bool]
) -> Trouble | PartitionStop | None:
    """None: all of it is filled, or as much as is wanted still."""
    copy, where = route.copy, route.copy.spec.partition.target
    producer = copy.fill_producer
    assert producer is not None, "a copy that fills by transactions resynchronises before that"
    for offset in range(fill.start.target, fill.end.target):
        try:
            await route.target.write_empty_transaction(copy.spec.transactional_id, producer, where, permit)
            end = (await route.target.log_ends(node, [where])).get(where)
        except (RequestFailed, ProtocolError) as failed:
            return _failed(offset, failed)
        if end != offset + 1:
            ends = "is not known" if end is None else f"is {end}"
            words = f"offset {offset} was filled by an empty transaction, but the target's end {ends}"
            return Trouble(Event.GAP_UNFILLED, words)
        if not copy.filled_to(offset + 1):
            return None
    return None


def _failed(offset: int, problem: RequestFailed | ProtocolError) -> Trouble | PartitionStop:
    stop = stop_for_transactions(problem, offset) if isinstance(problem, BrokerRefused) else None
    return stop or Trouble(
        Event.GAP_UNFILLED, f"offset {offset} could not be filled by an empty transaction: {problem.message}"
    )


def no_right(route: Route, fill: Fill) -> PartitionStop:
    """Of a link that may fill gaps in neither way."""
    spec = route.copy.spec
    first, end = fill.start.target, fill.end.target
    return PartitionStop(
        StopReason.REFUSED,
        f"the source holds no record to copy at offsets [{first}, {end}), and the target cluster lets the mirror fill"
        " gaps neither by markers (ALTER, from Kafka 3.8 on, or CLUSTER_ACTION on the cluster) nor by empty"
        f" transactions (WRITE on transactional id {spec.transactional_id})",
        hint="grant one of the two: "
        + route.target.gap_grants(transactional_prefix(spec.source_cluster_id))
        + AFTER_LINE,
    )
