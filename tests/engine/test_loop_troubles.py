"""What an event loop's trouble leaves in a log: what happened and where, and nothing that an exception is about."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.engine.loop_troubles import tell

SECRET = "open-sesame-4711"
SOURCE = Path(__file__).parents[2] / "src"


async def encode_late() -> bytes:
    """Fails with an error whose repr holds the secret."""
    return f"{SECRET}\udcff".encode()


def drop_task() -> None:
    asyncio.get_running_loop().create_task(encode_late())


def drop_future() -> None:
    try:
        f"{SECRET}\udcff".encode()
    except UnicodeEncodeError as problem:
        asyncio.get_running_loop().create_future().set_exception(problem)


@pytest.mark.parametrize("trouble", [drop_task, drop_future])
async def test_an_exception_that_nobody_awaits_is_logged_without_what_it_is_about(
    trouble: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.get_running_loop().set_exception_handler(tell)
    trouble()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()
    assert "UnicodeEncodeError" in caplog.text
    assert "exception was never retrieved" in caplog.text
    assert SECRET not in caplog.text


async def test_a_callback_that_fails_is_logged_without_its_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_secret: str) -> None:
        raise ValueError("too long")

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(tell)
    loop.call_soon(fail, SECRET)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "ValueError: too long" in caplog.text
    assert SECRET not in caplog.text


async def test_a_task_that_is_told_of_is_named(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    task = loop.create_task(encode_late())
    tell(loop, {"message": "something is wrong", "task": task})
    assert "something is wrong (encode_late)" in caplog.text
    with pytest.raises(UnicodeEncodeError):
        await task


def test_no_task_is_given_to_a_loops_handler_by_ours() -> None:
    """Commands other than `run` have asyncio's own handler, which logs the repr of all that it is given."""
    for file in SOURCE.rglob("*.py"):
        assert '"task":' not in file.read_text(), file
