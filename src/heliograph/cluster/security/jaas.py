"""`sasl.jaas.config`: one login module with its options, by the syntax that Kafka's Java clients read.

They read it with java.io.StreamTokenizer, so words, quotes, escapes and comments are that one's. Must not know what a
module or an option means (sasl_properties.py). The text holds passwords: no error quotes any of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

# In words: a slash of its own comments out the rest of its line, too, and takes the character behind it along, a line
# end for example; a quote ends with its line; a word may hold digits, but one that begins with a digit is a number.
_TOKEN = re.compile(
    r"""(?P<skipped>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/(?:.[^\r\n]*)?)
    |(?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]*))
    |(?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9._$\xa0-\U0010ffff-]*)
    |(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?:(?P=quote)|\\?\Z|(?=[\r\n]))
    |(?P<symbol>.)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:(?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)|(?P<plain>.))", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_QUOTING = r"put values in double quotes, and write \" and \\ for a quote and a backslash in them"


class JaasProblem(ValueError):
    """The text is no login module with options. The words quote nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)

    def revealed(self) -> str:
        """As text that `parse_jaas` reads as the same, with all its secrets."""
        options = "".join(f" {_quoted(name)}={_quoted(value)}" for name, value in self.options.items())
        return f"{_quoted(self.name)} {self.flag}{options};"


class Token(NamedTuple):
    """`text`: of a word or a quote, None for everything else. `symbol`: its first character as it is written, so that a
    quoted `;` is none."""

    text: str | None
    symbol: str


_END = Token(None, "")


def parse_jaas(text: str) -> LoginModule:
    tokens = tokens_of(text)
    module = next(tokens, _END)
    if module is _END:
        raise JaasProblem("is empty: it must name a login module")
    if module.text is None:
        raise JaasProblem("does not begin with the name of a login module")
    flag = next(tokens, _END).text
    if flag is None or flag.lower() not in _FLAGS:
        raise JaasProblem(f"has none of {', '.join(_FLAGS)} after the login module's name")
    options = _options(tokens)
    if next(tokens, _END) is not _END:
        raise JaasProblem("has more text after the first ';', and must have exactly one login module")
    return LoginModule(name=module.text, flag=flag.lower(), options=options)


def tokens_of(text: str) -> Iterator[Token]:
    for found in _TOKEN.finditer(text):
        if found["skipped"] is not None:
            continue
        if found["quote"] is not None:
            yield Token(_ESCAPE.sub(_unescaped, found["quoted"]), found["quote"])
        else:
            yield Token(found["word"], found[0][0])


def _options(tokens: Iterator[Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for number, name in enumerate(tokens, start=1):
        if name.symbol == ";":
            return options
        equals, value = next(tokens, _END), next(tokens, _END)
        if name.text is None or equals.symbol != "=" or value.text is None:
            raise JaasProblem(f"has no NAME=VALUE as option {number} of its login module; {_QUOTING}")
        options[name.text] = value.text
    raise JaasProblem(f"does not end with ; or has a quote that is not closed; {_QUOTING}")


def _unescaped(found: re.Match[str]) -> str:
    if found["octal"]:
        return chr(int(found["octal"], 8))
    return _CONTROLS.get(found["plain"], found["plain"])


def _quoted(text: str) -> str:
    """Line ends are escaped, too: a quote would end there."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n").replace("\r", r"\r")
    return f'"{escaped}"'
