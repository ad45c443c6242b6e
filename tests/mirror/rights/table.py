"""The table of least rights in docs/SECURITY.md, as rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from heliograph.cluster.grants import Right

PAGE = Path(__file__).parents[3] / "docs" / "SECURITY.md"
_WORD = re.compile(r"\b[A-Z]+(?:_[A-Z]+)*\b")


class Without(StrEnum):
    """What happens without a right."""

    ERROR = "error"
    WARNING = "warning"
    REFUSED = "refused"
    LESS = "less"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    purpose: str
    cluster: str
    rights: frozenset[Right]
    without: Without


def read_table() -> dict[tuple[str, str], Row]:
    """By purpose and cluster; rows that need no right are left out."""
    text = PAGE.read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| for \| cluster \| rights \| without \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
    rows = [_row(line) for line in table.splitlines()]
    found = {(row.purpose, row.cluster): row for row in rows if row is not None}
    assert len(found) == sum(row is not None for row in rows), "a row is there twice"
    return found


def _row(line: str) -> Row | None:
    purpose, cluster, rights, without = (cell.strip() for cell in line.strip("|").split(" | "))
    named = frozenset(Right[word] for word in _WORD.findall(rights) if word in Right.__members__)
    if not named:
        return None
    return Row(purpose=purpose, cluster=cluster, rights=named, without=Without(without.partition(":")[0]))
