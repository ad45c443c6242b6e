"""A lane's task: what its event loop cannot place ends the lane, which is then started anew."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from heliograph.engine.control_server import ControlServer
from heliograph.engine.lane_task import LaneTask, LaneTicket, unforeseen
from heliograph.model.errors import Disconnected
from heliograph.model.occurrence_log import logged

SECRET = b"s" * 32


@pytest.mark.parametrize(
    ("context", "ends_the_lane"),
    [
        ({"handle": 1, "exception": KeyError("x")}, True),
        ({"handle": 1, "exception": Disconnected("half done all the same")}, True),
        ({"protocol": 1, "exception": IndexError("a parser's bug")}, True),
        ({"future": 1, "exception": AssertionError("a task that nobody awaits")}, True),
        ({"future": 1, "exception": Disconnected("nobody awaits the answer any more")}, False),
        ({"transport": 1, "exception": ConnectionResetError()}, False),
        ({"message": "a task was destroyed but it is pending"}, False),
    ],
)
def test_what_leaves_work_half_done_ends_the_lane(context: dict[str, Any], ends_the_lane: bool) -> None:
    assert (unforeseen(context) is not None) == ends_the_lane


async def test_a_callback_that_raises_ends_the_lane_with_its_exception(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, logger="asyncio")
    server = ControlServer(SECRET, lambda _lane, _message: None, lambda _lane: None, outbox=logged())
    address = server.start("127.0.0.1")

    def stumble() -> None:
        raise ZeroDivisionError("a bug in a callback")

    asyncio.get_running_loop().call_later(0.1, stumble)
    ticket = LaneTicket(
        lane=0, address=address, memory_bytes=1 << 20, fingerprint=server.fingerprint, secret=SECRET
    )
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(5.0):
            await LaneTask(ticket).live()
    server.stop()
