"""Kafka-style .properties text to a mapping, by the rules of Java's own format.

Owns comments, continued lines, separators and escapes. Must not know what the keys mean.
"""

from __future__ import annotations

import re

_SEPARATOR = re.compile(r"(?P<key>(?:\\.|[^\\:=\s])*)(?:\s*[:=]\s*|\s+|$)(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<plain>.))", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def parse_properties_text(text: str) -> dict[str, str]:
    properties = {}
    for line in _logical_lines(text):
        found = _SEPARATOR.fullmatch(line)
        if found:
            properties[_unescaped(found["key"])] = _unescaped(found["value"])
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    begun = ""
    for natural in text.splitlines():
        line = natural.lstrip()
        if not begun and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            begun += line[:-1]
        else:
            lines.append(begun + line)
            begun = ""
    return [*lines, begun] if begun else lines


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        if found["code"]:
            return chr(int(found["code"], 16))
        return _CONTROL.get(found["plain"], found["plain"])

    return _ESCAPE.sub(one, text)
