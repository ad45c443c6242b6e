"""Many seeds at once, over all cores, and what they met in numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from .plan import FEWEST_APPENDS, FEWEST_FAULTS
from .world import Met, Verdict, run_seed

CHUNK = 10
FLOORS = Met(partitions=3, links=2, appends=FEWEST_APPENDS, faults=FEWEST_FAULTS, merges=0, out_of_order=0)


def _run_chunk(seeds: range) -> list[Verdict]:
    return [run_seed(seed) for seed in seeds]


def run_many(seeds: range) -> Iterator[Verdict]:
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for verdicts in pool.map(_run_chunk, chunks):
            yield from verdicts


def too_small(verdict: Verdict) -> bool:
    """Whether its world has met less than a seed must."""
    return any(met < floor for met, floor in zip(verdict.met, FLOORS, strict=True))


def in_words(verdicts: Sequence[Verdict]) -> str:
    """Medians, the least, and how many met what nothing can guard against."""
    excused = sum(verdict.excused for verdict in verdicts)
    columns = list(zip(*(verdict.met for verdict in verdicts), strict=True))
    return (
        f"medians: {_listed([median(column) for column in columns])},"
        f" {median(v.took_s for v in verdicts):.0f} virtual seconds; least: {_listed([min(c) for c in columns])};"
        f" {sum(map(too_small, verdicts))} of {len(verdicts)} below the floors ({_listed(FLOORS)});"
        f" {excused} met what nothing can guard against, and need only stop loudly;"
        f" {merged_in(verdicts)} worlds merged, and where lanes raced with some that merge,"
        f" {lost_races(verdicts)} appends were refused with OUT_OF_ORDER_SEQUENCE_NUMBER"
    )


def merged_in(verdicts: Sequence[Verdict]) -> int:
    """In how many worlds several batches of the source went as one append."""
    return sum(verdict.met.merges > 0 for verdict in verdicts)


def lost_races(verdicts: Sequence[Verdict]) -> int:
    """How often who cuts the log into batches in one way was refused behind who cuts it in another."""
    return sum(v.met.out_of_order for v in verdicts if v.plan.racing and v.plan.merging.happens)


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.0f} {name}" for number, name in zip(numbers, Met._fields, strict=True))
