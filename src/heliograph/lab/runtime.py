"""How the lab runs a Java program of one Kafka release: command line, logging, and what its output says of errors.

Must not know which program it is, nor its process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Newer releases log by the implementation that jars.py adds, which is set up by properties of the JVM.
SIMPLE_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
)
# Older ones bring log4j, which wants a file.
LOG4J_FILE = "log4j.properties"
LOG4J_SETTINGS = """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d [%t] %p %c - %m%n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What every process of a cluster is run with."""

    java_home: Path
    libs: Path
    heap_mb: int
    broker_options: tuple[str, ...] = ()  # of the JVM

    def command(self, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        return [str(self.java_home / "bin" / "java"), *options, "-cp", f"{self.libs}/*", *arguments]

    def logging(self, directory: Path) -> tuple[str, ...]:
        """Options by which warnings and errors go to the process's output."""
        if not any(self.libs.glob("log4j-1.*.jar")):
            return SIMPLE_LOGGING
        path = directory / LOG4J_FILE
        path.write_text(LOG4J_SETTINGS)
        return (f"-Dlog4j.configuration=file:{path}", *SIMPLE_LOGGING)


def own_errors(output: str, *, most: int = 12) -> str:
    """The last lines of a process's output that name an error; its last lines if none does."""
    lines = [line for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"ERROR|FATAL|Exception|Error:", line)]
    return "\n".join(f"  {line.strip()}" for line in (telling or lines)[-most:])
