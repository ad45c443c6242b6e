"""How one link stands: one value for the live socket and `status`, and its only encoder.

Its partitions are values of their own (partition_status.py); what is said of a link as a whole follows from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from heliograph.model.partition_filter import EVERY_PARTITION, PartitionFilter
from heliograph.model.partition_status import Document, PartitionStatus, published
from heliograph.model.state_summary import summarise
from heliograph.model.states import ATTENTION, BoundBy, PartitionState


class RoleName(StrEnum):
    """What a run is to a link (controller/drivership.py)."""

    ACTIVE = "active"
    STANDBY = "standby"
    SEEKING = "seeking"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    """`source`, `target`: the clusters' names in the config; `servers`: how to reach them. `role` None: no running
    mirror says; what only one knows, rates for example, is None then, too. `error`: why a cluster cannot be asked.
    `waits`: why a running mirror leaves the link alone for now."""

    link: str
    source: str = ""
    target: str = ""
    servers: tuple[str, str] = ("", "")
    source_cluster_id: str | None = None
    target_cluster_id: str | None = None
    role: RoleName | None = None
    records_per_s: float | None = None
    bytes_per_s: float | None = None
    bound_by: BoundBy | None = None
    waits: str | None = None
    error: str | None = None
    hint: str | None = None
    partitions: tuple[PartitionStatus, ...] = ()

    @property
    def state(self) -> str:
        """That of the partition which most needs attention."""
        if self.role is RoleName.STANDBY:
            return str(self.role)
        states = {row.state for row in self.partitions}
        return str(next((state for state in ATTENTION if state in states), PartitionState.UNKNOWN))

    @property
    def lag_records(self) -> int | None:
        lags = self._known(row.lag_records for row in self.partitions)
        return None if lags is None else sum(lags)

    @property
    def lag_ms(self) -> int | None:
        lags = self._known(row.lag_ms for row in self.partitions)
        return None if lags is None else max(lags, default=0)

    def _known(self, values: Iterable[int | None]) -> list[int] | None:
        """None: of one at least, or of a cluster that is away, it is not known."""
        values = list(values)
        known = [value for value in values if value is not None]
        return known if self.error is None and len(known) == len(values) else None


_FIELDS = tuple(field.name for field in fields(LinkStatus) if field.name not in ("link", "partitions"))


def encode_link(status: LinkStatus) -> Document:
    """All but its name and its partitions."""
    return {name: getattr(status, name) for name in _FIELDS}


def decode_link(link: str, document: Mapping[str, Any]) -> LinkStatus:
    """Of a mirror that says less, of the version before for example, what is missing is not known."""
    known: dict[str, Any] = {name: document[name] for name in _FIELDS if name in document}
    source, target = document["servers"]
    role, bound_by = known.get("role"), known.get("bound_by")
    typed = {
        "servers": (source, target),
        "role": RoleName(role) if role is not None else None,
        "bound_by": BoundBy(bound_by) if bound_by is not None else None,
    }
    return LinkStatus(link=link, **{**known, **typed})


def published_link(status: LinkStatus, shown: PartitionFilter = EVERY_PARTITION) -> Document:
    """As `heliograph.status/1` has it: plain values, which YAML takes, too. What is said of the link is of all of its
    partitions, also of those that `shown` leaves out."""
    rows = [row for row in status.partitions if shown.keeps(row.partition, row.state, row.lag_records)]
    return {
        "link": status.link,
        "state": status.state,
        "source": status.source,
        "target": status.target,
        "source_cluster_id": status.source_cluster_id,
        "target_cluster_id": status.target_cluster_id,
        "lag_records": status.lag_records,
        "lag_ms": status.lag_ms,
        "bytes_per_s": status.bytes_per_s,
        "records_per_s": status.records_per_s,
        "bound_by": str(status.bound_by) if status.bound_by else None,
        "waits": status.waits,
        "error": status.error,
        "hint": status.hint,
        "summary": summarise((row.state, row.lag_records) for row in status.partitions),
        "partitions": [published(row) for row in rows],
    }
