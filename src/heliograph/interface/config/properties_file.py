"""A Java .properties file to a mapping, exactly as java.util.Properties reads it.

Owns comments, continued lines, separators, escapes and the encoding. Must not know what the keys mean. Values may be
secrets: no problem quotes one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BLANKS = " \t\f"  # no other white space counts
_LINE_END = re.compile(r"\r\n|\r|\n")
_ENTRY = re.compile(
    r"(?P<key>(?:\\.|[^\\:= \t\f])*)(?:[ \t\f]*[:=][ \t\f]*|[ \t\f]+|$)(?P<value>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})?|(?P<plain>.))", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


class PropertiesProblem(ValueError):
    """The text is no properties file."""


def read_properties(path: Path) -> dict[str, str]:
    """UTF-8, or else ISO-8859-1: Java takes either, by how a program opens the file, and hardly a text is both.
    PropertiesProblem says why not."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for, and a device has no end
            raise PropertiesProblem(f"{path} is not a file")
        data = path.read_bytes()
    except PropertiesProblem:
        raise
    except OSError as error:
        raise PropertiesProblem(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise PropertiesProblem("cannot read a path that holds a zero byte") from None
    # Java would take the mark for a part of the first key, which may be the one that asks for TLS.
    if data.startswith(_MARKS) or b"\0" in data:
        raise PropertiesProblem(
            f"{path} begins with a byte order mark, or is UTF-16: save it as UTF-8 without a byte order mark"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    try:
        return parse_properties_text(text)
    except PropertiesProblem as problem:
        raise PropertiesProblem(f"{path}: {problem}") from None


def parse_properties_text(text: str) -> dict[str, str]:
    """Of a key that is there twice the last value counts."""
    properties = {}
    for number, line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None, "every line is a key and a value, of which either may be empty"
        properties[_unescaped(entry["key"], number)] = _unescaped(entry["value"], number)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each with the number of its first line. A backslash at the end goes on in the next one, whatever is there."""
    begun, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANKS)
        if not begun:
            if not line or line[0] in "#!":
                continue
            first = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
        else:
            yield first, begun + line
            begun = ""
    if begun:
        yield first, begun


def _unescaped(text: str, line: int) -> str:
    def one(found: re.Match[str]) -> str:
        if found["plain"]:
            return _CONTROL.get(found["plain"], found["plain"])
        if not found["code"]:
            raise PropertiesProblem(rf"line {line}: \u without four hexadecimal digits behind it")
        return chr(int(found["code"], 16))

    replaced = _ESCAPE.sub(one, text)
    try:  # Java's characters are halves of those beyond \uffff
        return replaced.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise PropertiesProblem(rf"line {line}: \u names half of a character") from None
