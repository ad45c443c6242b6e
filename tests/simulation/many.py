"""Many seeds at once, over all cores, and what they met in numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from .world import Verdict, run_seed

CHUNK = 10


def _run_chunk(seeds: range) -> list[Verdict]:
    return [run_seed(seed) for seed in seeds]


def run_many(seeds: range) -> Iterator[Verdict]:
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for verdicts in pool.map(_run_chunk, chunks):
            yield from verdicts


def in_words(verdicts: Sequence[Verdict]) -> str:
    """Medians, and how many met what nothing can guard against."""
    excused = sum(verdict.excused for verdict in verdicts)
    return (
        f"medians: {median(v.partitions for v in verdicts):.0f} partitions,"
        f" {median(v.appends for v in verdicts):.0f} appends, {median(v.faults for v in verdicts):.0f} faults,"
        f" {median(v.took_s for v in verdicts):.0f} virtual seconds;"
        f" at least {min(v.appends for v in verdicts)} appends and {min(v.faults for v in verdicts)} faults;"
        f" {excused} of {len(verdicts)} met what nothing can guard against, and need only stop loudly"
    )
