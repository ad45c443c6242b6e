"""How much is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """`records` of each workload that is copied. `tls`: between the mirrors and both clusters."""

    workloads: tuple[str, ...]
    records: Mapping[str, int]
    rounds: int = 3
    replication: int = 1
    tls: bool = False
