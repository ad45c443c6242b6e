"""Appends to a topic of Heliograph's own whose outcome is not known: nothing takes their place (a played leader)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from heliograph.cluster import record_log
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.record_log import Pair, RecordLog
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.wire.error_codes import ErrorCode

ROW, OTHER = (b"a", b"1"), (b"b", b"2")


class Leader(RecordLog):
    """Appends by sequence numbers as a broker does. `answers`: of the next appends; None: it is lost."""

    def __init__(self) -> None:
        super().__init__(cast(ClusterClient, None), "t")
        self._producer = (1, 0)
        self.log: list[Pair] = []
        self.answers: list[BrokerRefused | None] = []
        self.answered = asyncio.Event()
        self.answered.set()

    async def look_again(self) -> None:
        await asyncio.sleep(0)

    async def _try(self, records: Sequence[Pair]) -> None:
        refused = self.answers.pop(0) if self.answers else False
        if isinstance(refused, BrokerRefused):
            raise refused
        if self._sequence == len(self.log):  # else they are there already, as far as a broker can tell
            self.log += records
        await self.answered.wait()
        if refused is None:
            raise Disconnected("the answer is lost")


async def test_an_append_whose_writer_was_cancelled_does_not_swallow_the_next() -> None:
    leader = Leader()
    leader.answered.clear()
    writing = asyncio.create_task(leader.append([ROW]))
    await asyncio.sleep(0.01)
    writing.cancel()
    leader.answered.set()
    await leader.append([OTHER])
    assert leader.log == [ROW, OTHER]


async def test_an_append_that_was_given_up_is_there_once_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_log, "APPEND_LIMIT_S", 0.0)
    leader = Leader()
    leader.answers = [None]
    with pytest.raises(Disconnected):
        await leader.append([ROW])
    await leader.append([OTHER])
    assert leader.log == [ROW, OTHER]


async def test_the_same_again_is_the_same_append(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_log, "APPEND_LIMIT_S", 0.0)
    leader = Leader()
    leader.answers = [None]
    with pytest.raises(Disconnected):
        await leader.append([ROW])
    await leader.append([ROW])
    assert leader.log == [ROW]


async def test_what_was_refused_for_good_is_not_sent_again() -> None:
    leader = Leader()
    leader.answers = [BrokerRefused("too large", code=ErrorCode.MESSAGE_TOO_LARGE)]
    with pytest.raises(BrokerRefused):
        await leader.append([ROW])
    await leader.append([OTHER])
    assert leader.log == [OTHER]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.NOT_ENOUGH_REPLICAS])
async def test_an_append_that_is_refused_again_and_again_is_given_up(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    monkeypatch.setattr(record_log, "APPEND_LIMIT_S", 0.05)
    leader = Leader()
    leader.answers = [BrokerRefused("refused", code=code)] * 1_000_000
    async with asyncio.timeout(5):
        with pytest.raises(BrokerRefused):
            await leader.append([ROW])
