"""A member of an election in a process of its own, to be killed or frozen: `python -m ... BOOTSTRAP GROUP NAME`.

Prints a line of JSON whenever its role or its lease changes: [moment, kind of role, generation, lease_until].
All processes of a machine share the clock, so their lines can be compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.election import Active, Election, Role
from heliograph.cluster.properties import parse_properties
from heliograph.model.clock import clock_of_suspended_time

SAMPLE_S = 0.005


async def take_part(bootstrap: str, group: str, name: str) -> None:
    client = ClusterClient("target", parse_properties({"bootstrap.servers": bootstrap}))
    await client.connect()
    election = Election(
        client, group, describe={"host": name, "pid": os.getpid()}, on_change=lambda _role: None
    )
    election.start()
    told: tuple[Role, float] | None = None
    while True:
        seen = (election.role, election.lease_until)
        if seen != told:
            tell(*seen)
            told = seen
        await asyncio.sleep(SAMPLE_S)


def tell(role: Role, lease_until: float) -> None:
    generation = role.generation if isinstance(role, Active) else -1
    line = [clock_of_suspended_time(), type(role).__name__, generation, max(lease_until, -1.0)]
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(take_part(*sys.argv[1:4]))
