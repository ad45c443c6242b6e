"""Logs on stderr, for people or for machines.

Owns `--log-level` and `--log-format`, before the command or after it. Must not know who logs what.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from heliograph.model.occurrence import Occurrence

PROGRESS = "heliograph.progress"


class Level(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class LogFormat(StrEnum):
    text = "text"
    json = "json"


class _TextFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # logging's own name for its hook
        event = _event(record)
        code = f" [{event}]" if event else ""
        return f"{_instant(record)} {record.levelname:<7} {record.name}:{code} {record.message}"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if event := _event(record):
            line["event"] = event
        line |= _fields(record)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _StderrHandler(logging.Handler):
    """Ours, so that configuring again replaces it and leaves everybody else's handlers alone.

    Writes to whatever stderr is now: a live display puts itself in its place, and lines go above it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except OSError:
            self.handleError(record)


def configure(level: Level = Level.info, form: LogFormat = LogFormat.text) -> None:
    """Our own logs from `level` on; the libraries' warnings, and at debug also what they tell at info."""
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _StderrHandler)]
    root.addHandler(_StderrHandler())
    _set_level(level)
    _set_form(form)


def debugging() -> bool:
    return logging.getLogger("heliograph").isEnabledFor(logging.DEBUG)


def show_progress(sentence: str, figures: dict[str, Any]) -> None:
    """One line on stderr in the form of the log lines; it is no event, and no level hides it."""
    line = sentence
    if writes_json():
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, "level": "info", "logger": PROGRESS, "message": sentence, **figures})
    print(line, file=sys.stderr, flush=True)


def writes_json() -> bool:
    ours = [each for each in logging.getLogger().handlers if isinstance(each, _StderrHandler)]
    return any(isinstance(each.formatter, _JsonFormatter) for each in ours)


def _set_level(level: Level | None) -> Level | None:
    if level is not None:
        logging.getLogger().setLevel(logging.INFO if level is Level.debug else logging.WARNING)
        logging.getLogger("heliograph").setLevel(level.upper())
    return level


def _set_form(form: LogFormat | None) -> LogFormat | None:
    if form is not None:
        for handler in logging.getLogger().handlers:
            if isinstance(handler, _StderrHandler):
                handler.setFormatter(_JsonFormatter() if form is LogFormat.json else _TextFormatter())
    return form


def _event(record: logging.LogRecord) -> str:
    """The stable code of what is told (docs/EVENTS.md), or nothing."""
    return str(getattr(record, "event", None) or "")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What machines need not read out of the message: where it is, what to do, and how many lines were joined in it."""
    fields: dict[str, Any] = {"joined": getattr(record, "joined", None)}
    occurrence = getattr(record, "occurrence", None)
    if isinstance(occurrence, Occurrence):
        fields |= {**occurrence.where, "hint": occurrence.hint}
    return {name: value for name, value in fields.items() if value is not None}


def _instant(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


# A command takes these two as parameters to allow them after its name; their callbacks do the work.
LevelOption = Annotated[
    Level | None,
    typer.Option(
        "--log-level", help="Least severe log line to show.", callback=_set_level, show_default="info"
    ),
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="Form of the log lines.", callback=_set_form, show_default="text"),
]
