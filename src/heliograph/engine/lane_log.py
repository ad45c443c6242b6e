"""What a lane has to say reaches the driver's log: warnings and worse, over the control line.

An executor's own log is on another machine, where nobody looks before it is too late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heliograph.engine.orders import LogLine

WORDS_LIMIT = 4000
_LEVELS = {"WARNING": logging.WARNING, "ERROR": logging.ERROR, "CRITICAL": logging.CRITICAL}

log = logging.getLogger("heliograph.lane")


class _Teller(logging.Handler):
    def __init__(self, send: Callable[[LogLine], None]) -> None:
        super().__init__(logging.WARNING)
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == log.name:
            return  # of a driver in this same process: it repeats what it was told, and would be told that
        try:
            words = self.format(record)[:WORDS_LIMIT]
        except Exception:  # noqa: BLE001 - logging's own way with a record that cannot be formatted
            self.handleError(record)
            return
        self._send(LogLine(level=record.levelname, logger=record.name, words=words))


@contextmanager
def tell_driver(send: Callable[[LogLine], None]) -> Iterator[None]:
    """In a lane: whatever is logged meanwhile is sent, too."""
    teller, root = _Teller(send), logging.getLogger()
    root.addHandler(teller)
    try:
        yield
    finally:
        root.removeHandler(teller)


def repeat(lane: int, line: LogLine) -> None:
    """In the driver: log what a lane has told."""
    level = _LEVELS.get(line.level, logging.WARNING)
    log.log(level, "lane %d: %s: %s", lane, line.logger, line.words)
