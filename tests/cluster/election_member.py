"""A member of an election in a process of its own, to be killed or frozen: `python -m ... BOOTSTRAP GROUP NAME`.

All claim one topic. Prints a line of JSON whenever its standing or its lease changes: [moment, "Active", "Standby" or
"Seeking", generation, lease_until].
All processes of a machine share the clock, so their lines can be compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.election import Election
from heliograph.cluster.properties import parse_properties
from heliograph.cluster.standing import Placed
from heliograph.model.clock import clock_of_suspended_time

from .held_topics import claiming, holds

SAMPLE_S = 0.005


async def take_part(bootstrap: str, group: str, name: str) -> None:
    client = ClusterClient("target", parse_properties({"bootstrap.servers": bootstrap}))
    await client.connect()
    election = Election(client, group, claiming(name, os.getpid()), on_change=lambda _standing: None)
    election.start()
    told: tuple[str, int, float] | None = None
    while True:
        seen = seen_of(election)
        if seen != told:
            sys.stdout.write(json.dumps([clock_of_suspended_time(), *seen]) + "\n")
            sys.stdout.flush()
            told = seen
        await asyncio.sleep(SAMPLE_S)


def seen_of(election: Election) -> tuple[str, int, float]:
    standing, lease_until = election.standing, max(election.lease_until, -1.0)
    if not isinstance(standing, Placed):
        return "Seeking", -1, lease_until
    return "Active" if holds(election) else "Standby", standing.term.generation, lease_until


if __name__ == "__main__":
    asyncio.run(take_part(*sys.argv[1:4]))
