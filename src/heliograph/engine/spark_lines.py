"""What Spark's JVM prints becomes log lines under `heliograph.spark`.

Owns how loud each line is. Nearly all of them are for debugging: a lane that ended is told by lane_jobs in one line,
and the same in Spark's words is a stack trace of a hundred. What concerns Spark as a whole is told as an error.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import deque

from heliograph.model.events import Event
from heliograph.model.outbox import Outbox

LINE_LIMIT = 4000  # characters; what is longer is told in pieces
LAST_LINES = 50
LAST_WORDS = 5
_FRAME = re.compile(r"\s+at |\s*\.\.\. \d+ more|\s*$")
_EVENT = re.compile(r"spark: (?P<level>[A-Z]+) (?P<logger>\S+): ")
_LOUD = frozenset({"ERROR", "FATAL"})
# Of these every error is about a task, which is a lane: lane_jobs tells of its end and of its cause.
_OF_TASKS = re.compile(r"Executor|TaskSetManager|TaskReaper|\w*Python\w*|\w*Runner|DAGScheduler|ResultTask")
# The JVM's own last words come in no log4j layout.
_JVM_FAILS = re.compile(r"# |(Terminating due to )?java\.lang\.OutOfMemoryError")

log = logging.getLogger("heliograph.spark")

# %p: level, %c{1}: class, %ex: the stack trace. What is printed in this layout is what `is_loud` reads.
LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %p %c{1}: %m%n%ex
"""


def is_loud(line: str) -> bool:
    """Whether a line as the JVM prints it is an error of Spark as a whole. Lines that go on from the one before are for
    debugging, whatever that was."""
    event = _EVENT.match(line)
    if event is None:
        return _JVM_FAILS.match(line) is not None
    return event["level"] in _LOUD and not _OF_TASKS.fullmatch(event["logger"])


class SparkLines:
    """A pipe for the JVM to print to, read by a thread to its end: until everybody who holds it is gone."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        reading, self.writing = os.pipe()
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._reader = threading.Thread(target=self._read, args=(reading,), name="spark-lines", daemon=True)
        self._reader.start()

    def given(self) -> None:
        """The JVM has its own copy of the writing end, or will never have one."""
        os.close(self.writing)

    def last_words(self, wait_s: float) -> list[str]:
        """The last lines that are no stack trace, of a JVM that is most likely about to end."""
        self._reader.join(wait_s)
        return [line for line in list(self._last) if not _FRAME.match(line)][-LAST_WORDS:]

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
            while line := pipe.readline(LINE_LIMIT):
                line = line.rstrip()
                self._last.append(line)
                words = line.removeprefix("spark: ")
                if is_loud(line):
                    self._outbox.tell(Event.SPARK_ERROR, words)
                else:
                    log.debug("%s", words)
