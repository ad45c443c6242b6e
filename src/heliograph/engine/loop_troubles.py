"""What is logged of an event loop's trouble: what happened, where, and the traceback.

asyncio's own handler also logs the repr of the task, the future or the callback that it is about. They show arguments,
and exceptions with all that they hold: of a password that could not be encoded, the password.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

_OF_A_CALLBACK = "a callback of the event loop failed"  # asyncio's own words hold its arguments
_UNTOLD = "unhandled exception in event loop"  # asyncio's words


def tell(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """A handler for `set_exception_handler`."""
    loop.default_exception_handler(without_values(context))


def without_values(context: Mapping[str, Any]) -> dict[str, Any]:
    message = _OF_A_CALLBACK if "handle" in context else context.get("message") or _UNTOLD
    told: dict[str, Any] = {"message": f"{message}{_where(context)}"}
    if isinstance(context.get("exception"), BaseException):
        told["exception"] = context["exception"]
    return told


def _where(context: Mapping[str, Any]) -> str:
    """A task has no traceback if it was never begun, or did not end."""
    task = context.get("task") or context.get("future")
    if not isinstance(task, asyncio.Task):
        return ""
    return f" ({getattr(task.get_coro(), '__qualname__', 'a task')})"
