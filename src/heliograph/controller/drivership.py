"""Which links this run is the active driver of: one election for each, on the link's target cluster.

Two runs of one link may be on different machines; the group of the election is named by the link and the source's
cluster id, so that it is the same for both. Knows nothing of lanes.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.election import Active, Election, Role, Seeking, Standby
from heliograph.cluster.group_requests import CONFIG
from heliograph.model.clock import clock_of_suspended_time

LEASE_MOST_S = 10.0

__all__ = ["Active", "Drivership", "Role", "Seeking", "Standby", "group_of"]


def group_of(link: str, source_cluster_id: str) -> str:
    return f"heliograph.{link}.{source_cluster_id}"


class Drivership:
    """`on_change(link, role)` is called in the event loop. By link: `groups`, where to elect and by which group, and
    `fingerprints` of the configs, which the others compare with their own."""

    def __init__(
        self,
        groups: Mapping[str, tuple[ClusterClient, str]],
        on_change: Callable[[str, Role], None],
        fingerprints: Mapping[str, str],
    ) -> None:
        who = {"host": socket.gethostname(), "pid": os.getpid()}

        def tell(link: str) -> Callable[[Role], None]:
            return lambda role: on_change(link, role)

        self._elections = {
            link: Election(client, group, describe={**who, CONFIG: fingerprints[link]}, on_change=tell(link))
            for link, (client, group) in groups.items()
        }

    def start(self) -> None:
        for election in self._elections.values():
            election.start()

    async def aclose(self, *, leave: bool = True) -> None:
        """Step down: with `leave` a standby takes over at once, else when the last lease is over."""
        await asyncio.gather(*(election.aclose(leave=leave) for election in self._elections.values()))

    def grants(self) -> dict[str, float]:
        """How long, in seconds from now, each link is ours for certain. May be called from any thread."""
        now = clock_of_suspended_time()
        return {
            link: max(min(election.lease_until - now, LEASE_MOST_S), 0.0)
            for link, election in self._elections.items()
        }
