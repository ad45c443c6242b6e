"""The commands that a hint names, as lines that can be pasted.

A stop is made where no name is known: in a table of broker answers, in the rules of admission. So its hint holds a
placeholder, and `hint_for` puts the names in when the stop becomes something that is shown or written. Must not know
which stop wants which command.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from heliograph.model.partition import MirrorPartition

# Braces are in no name of a topic or link, so nothing that a broker says is taken for one of these.
RESUME = "{resume}"
RESUME_TOPIC = "{resume topic}"
ACCEPT_LOSS = "{resume --accept-loss}"
REMIRROR = "{remirror}"
TARGET_TOPIC = "{target topic}"

# At the end of a hint that says how to mend the cause.
THEN_RESUME = f", then: {RESUME}"
THEN_RESUME_TOPIC = f", then: {RESUME_TOPIC}"
# The same behind a line for a shell, which can be pasted with it.
AFTER_LINE = f"  # then: {RESUME}"
# Of what every plan finds by itself: it is not written down, so a new start is enough.
THEN_START = f", then start the mirror again, or while it runs: {RESUME_TOPIC}"
START_AFTER_LINE = f"  # then start the mirror again, or while it runs: {RESUME_TOPIC}"

# The only advice that destroys something: it always says what.
AFRESH = (
    "to copy the whole topic again, at the same offsets (records that only the target holds are lost; the command shows"
    f" them and asks first): {REMIRROR}"
)

SUPPORTED_VERSIONS = "sources from Kafka 0.8.2 and targets from Kafka 2.8 are supported (docs/VERSIONS.md)"

# Of a target topic that somebody has deleted and created.
MADE_AGAIN = f"find out who did it; if the new target topic is empty: {RESUME_TOPIC}; if not, {AFRESH}"


def hint_for(where: MirrorPartition, hint: str) -> str:
    """The hint with the names of this partition."""
    if "{" not in hint:
        return hint
    partition = str(where.source)
    filled = {
        RESUME: topics_line("resume", where.link, partition),
        RESUME_TOPIC: topics_line("resume", where.link, where.source_topic),
        ACCEPT_LOSS: topics_line("resume", where.link, partition, options=("--accept-loss",)),
        REMIRROR: topics_line("remirror", where.link, where.source_topic),
        TARGET_TOPIC: quote(where.target_topic),
    }
    for placeholder, words in filled.items():
        hint = hint.replace(placeholder, words)
    return hint


def topics_line(
    verb: str, link: str, *topics: str, options: Sequence[str] = (), config: str | None = None
) -> str:
    """A line of `heliograph topics`. `config`: the file, where it must be named."""
    words, file = [link, *topics], ["-f", config] if config else []
    # Kafka allows names that begin with a dash: without `--` they would be taken for options.
    dashed = any(word.startswith("-") for word in words)
    words = [*options, "--", *words] if dashed else [*words, *options]
    return " ".join(map(quote, ["heliograph", "topics", verb, *file, *words]))
