"""What a preflight has found, as frozen values: what is missing, where, and how to grant it. No I/O.

One finding per right and cluster: a thousand topics that lack the same right are one finding that names five of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import NAMES_SHOWN, Resource, Right, grant_line
from heliograph.model.events import Severity
from heliograph.model.states import StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`cluster` is its name in the config. `names`: all the topics, or the group, that it is about; empty: the link
    as a whole. `right` and `resource` are None where it is not about a right. `severity`: an error will not work, a
    warning may not, or could not be checked. `reason`: of the stop that an error is."""

    severity: Severity
    link: str
    cluster: str
    message: str
    hint: str
    right: Right | None = None
    resource: Resource | None = None
    names: tuple[str, ...] = ()
    reason: StopReason = StopReason.PREFLIGHT

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of `cluster` that it is about; empty: the link as a whole."""
        return self.names if self.resource is Resource.TOPIC else ()

    def __str__(self) -> str:
        return f"link {self.link}: cluster {self.cluster!r}: {self.message} (hint: {self.hint})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One cluster of a link: findings about it are made here."""

    link: str
    client: ClusterClient

    def find(self, severity: Severity, message: str, hint: str, topics: Iterable[str] = ()) -> Finding:
        """One that is not about a right."""
        names = tuple(sorted(topics))
        return Finding(
            severity=severity,
            link=self.link,
            cluster=self.client.name,
            message=message,
            hint=hint,
            resource=Resource.TOPIC if names else None,
            names=names,
        )

    def lacks(
        self,
        right: Right,
        resource: Resource,
        names: Iterable[str] = (),
        *,
        severity: Severity = Severity.ERROR,
        consequence: str = "",
    ) -> list[Finding]:
        """One finding, or none when there is no name; a cluster needs none."""
        named = tuple(sorted(names))
        if not named and resource is not Resource.CLUSTER:
            return []
        what = f"{resource} {listed(named)}" if named else f"the {resource}"
        message = f"{right.name} on {what} is missing" + (f": {consequence}" if consequence else "")
        found = Finding(
            severity=severity,
            link=self.link,
            cluster=self.client.name,
            message=message,
            hint=grant_line(self.client.properties, right, resource, named),
            right=right,
            resource=resource,
            names=named,
        )
        return [found]


def listed(names: Iterable[str]) -> str:
    """At most five of them, and how many more there are."""
    everything = sorted(names)
    shown = ", ".join(everything[:NAMES_SHOWN])
    left_out = len(everything) - NAMES_SHOWN
    return f"{shown} and {left_out} more" if left_out > 0 else shown
