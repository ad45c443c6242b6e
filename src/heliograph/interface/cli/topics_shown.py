"""What `heliograph topics pause|resume|remirror` print: before, what will be done; after, what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.interface.cli.row_table import ROWS_SHOWN
from heliograph.model.command import Outcome
from heliograph.model.ledger import WHOLE_TOPIC

if TYPE_CHECKING:
    from heliograph.operations.decision import Decision, Draft
    from heliograph.operations.recording import Done

SCHEMA = "heliograph.topics.command/1"
NO_MIRROR = "recorded: no mirror runs; the next one does it when it starts"
WAITED_S = 10


def preview(decision: Decision) -> Iterator[str]:
    """All that is lost, and the beginning of what else there is to say."""
    for draft in decision.drafts:
        yield from draft.shown if draft.destroys else ()
    told = [line for draft in decision.drafts if not draft.destroys for line in draft.shown]
    yield from told[:ROWS_SHOWN]
    for refusal in decision.refusals[:ROWS_SHOWN]:
        yield f"refused: {_about(refusal.subject, refusal.message)}"
        if refusal.hint:
            yield f"hint: {refusal.hint}"
    more = max(len(told) - ROWS_SHOWN, 0) + max(len(decision.refusals) - ROWS_SHOWN, 0)
    if more:
        yield f"{more} more: --json has all"


def _about(subject: str, message: str) -> str:
    return message if subject in message else f"{subject}: {message}"


def commanded_document(decision: Decision, recorded: Done | None) -> dict[str, Any]:
    """`recorded` None: nothing was written. `done`: all that was wanted is done, or will be when a mirror starts."""
    commands = [_command(draft, recorded) for draft in decision.drafts]
    missing = [each for each in commands if each["outcome"] not in (None, Outcome.APPLIED)]
    silent = [each for each in commands if each["outcome"] is None]
    waited = recorded is not None and not recorded.runners.none
    return {
        "schema": SCHEMA,
        "link": decision.link.name,
        "wish": str(decision.wish),
        "recorded": recorded is not None,
        "done": not decision.refusals and not missing and not (waited and silent),
        "mirrors": list(recorded.runners.names) if recorded else None,
        "mirrors_unread": recorded.runners.problem if recorded else None,
        "commands": commands,
        "refused": [
            {"subject": each.subject, "message": each.message, "hint": each.hint}
            for each in decision.refusals
        ],
        "unchanged": [{"subject": each.subject, "message": each.message} for each in decision.unchanged],
    }


def _command(draft: Draft, recorded: Done | None) -> dict[str, Any]:
    commands = recorded.commands if recorded else ()
    written = next((command for of, command in commands if of is draft), None)
    answer = recorded.answers.get(written.id) if recorded and written else None
    where = draft.where
    return {
        "source_topic": where.source_topic,
        "target_topic": where.target_topic,
        "partition": None if where.partition == WHOLE_TOPIC else where.partition,
        "stop": draft.stop,
        "loses": {str(number): list(lost) for number, lost in draft.loses.items()},
        **draft.details,
        "shown": list(draft.shown),
        "id": written.id if written else None,
        "outcome": str(answer.outcome) if answer else None,
        "message": answer.message if answer else None,
        "hint": answer.hint if answer else None,
    }


def results(document: dict[str, Any]) -> RenderableType:
    return Group(*(Text(line) for line in _result_lines(document)))


def _result_lines(document: dict[str, Any]) -> Iterator[str]:
    commands, wish = document["commands"], document["wish"]
    for each in document["unchanged"][:ROWS_SHOWN]:
        yield f"{each['subject']} {each['message']}"
    if len(document["unchanged"]) > ROWS_SHOWN:
        yield f"{len(document['unchanged']) - ROWS_SHOWN} more: --json has all"
    if not commands:
        if not document["unchanged"] and not document["refused"]:
            yield f"nothing to {wish}"
        return
    if not document["recorded"]:
        yield f"would {wish} {_subjects(commands)}; nothing was written (--dry-run)"
        return
    answered = [each for each in commands if each["outcome"]]
    for outcome in Outcome:
        same = [each for each in answered if each["outcome"] == outcome]
        if outcome is Outcome.APPLIED and same:
            yield f"{wish} {_subjects(same)}: applied"
        elif same:
            yield from _told(same)
    silent = [each for each in commands if not each["outcome"]]
    if silent:
        yield f"{wish} {_subjects(silent)}: {_unanswered(document)}"


def _told(commands: list[dict[str, Any]]) -> Iterator[str]:
    for each in commands[:ROWS_SHOWN]:
        word = "still under way" if each["outcome"] == Outcome.UNDER_WAY else each["outcome"]
        yield f"{_subject(each)}: {word}: {each['message']}"
        if each["hint"]:
            yield f"hint: {each['hint']}"
    if len(commands) > ROWS_SHOWN:
        yield f"{len(commands) - ROWS_SHOWN} more: --json has all"


def _unanswered(document: dict[str, Any]) -> str:
    if document["mirrors_unread"]:
        return f"no answer in {WAITED_S} s; the command stays recorded; {document['mirrors_unread']}"
    if not document["mirrors"]:
        return NO_MIRROR
    who = ", ".join(document["mirrors"])
    return f"no answer from the running mirror on {who} in {WAITED_S} s; the command stays recorded"


def _subjects(commands: list[dict[str, Any]]) -> str:
    names = [_subject(each) for each in commands]
    more = f" and {len(names) - ROWS_SHOWN} more" if len(names) > ROWS_SHOWN else ""
    return ", ".join(names[:ROWS_SHOWN]) + more


def _subject(command: dict[str, Any]) -> str:
    topic, number = command["source_topic"], command["partition"]
    return str(topic) if number is None else f"{topic}:{number}"
