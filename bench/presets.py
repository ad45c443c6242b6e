"""All workloads in the order in which they are measured, and what a quick and a full run take of them."""

from __future__ import annotations

from bench.latencies import LATENCIES
from bench.recipes import RECIPES
from bench.scope import Scope

WORKLOADS = (*RECIPES, *LATENCIES)
QUICK = Scope(
    workloads=("big", "tiny", "latency"),
    records={
        "big": 1_000_000,
        "tiny": 500_000,
        "uncompressed": 500_000,
        "transactional": 200_000,
        "memory": 600,
    },
)
FULL = Scope(
    workloads=WORKLOADS,
    records={
        "big": 1_500_000,
        "tiny": 3_000_000,
        "uncompressed": 1_500_000,
        "transactional": 500_000,
        "memory": 2_200,
    },
)
