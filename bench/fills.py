"""How fast gaps are filled, logs aligned and compacted topics built: `python -m bench.fills`.

One lane of the product in this process, without Spark, on two lab clusters of one broker each; for compacted topics a
whole `heliograph run`. Prints a table and writes JSON beside the results of `script/bench`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import uvloop
from rich.console import Console

from bench.aims import Aim
from bench.alignments import AlignmentTime, measure_alignment
from bench.clusters import ClusterPair, cluster_pair
from bench.compacted import BuildTime, measure_build
from bench.gap_rates import BulkRate, TailLag, measure_bulk, measure_tail
from bench.report import RESULTS, write_json
from bench.tables import aims_table

BULK_LEAST = 15_000
ALIGNED_LEAST_S = 15.0
LONGEST = 57_000_000
SEVERAL, EACH = 4, 10_000_000
COMPACTED, BUILT_LEAST_S = 20_000_000, 60.0
PARTS = ("bulk", "tail", "alignment", "alignments", "compacted")


@dataclass(slots=True, kw_only=True)
class FillResults:
    bulk: BulkRate | None = None
    tail: TailLag | None = None
    alignments: list[AlignmentTime] = field(default_factory=list)
    build: BuildTime | None = None


def aims_of(results: FillResults) -> list[Aim]:
    """What was not measured has no row."""
    aims = []
    if results.bulk:
        aims.append(_bulk_aim(results.bulk))
    if results.tail:
        aims.append(_tail_aim(results.tail))
    aims += [_alignment_aim(each) for each in results.alignments]
    if results.build:
        aims.append(_build_aim(results.build))
    return aims


def _bulk_aim(bulk: BulkRate) -> Aim:
    return Aim(
        name=f"offsets/s of one gap of {bulk.offsets:,}",
        wanted=f">= {BULK_LEAST:,}",
        measured=f"{bulk.offsets_per_s:,.0f}",
        met=bulk.offsets_per_s >= BULK_LEAST,
    )


def _tail_aim(tail: TailLag) -> Aim:
    return Aim(
        name=f"{tail.commits_per_s:.0f} commits/s on one partition, tailed",
        wanted="does not fall behind",
        measured=f"lag {tail.median:.1f} transactions, highest {tail.highest:.1f}; {tail.left_s:.2f} s at the end",
        met=not tail.falls_behind,
    )


def _alignment_aim(one: AlignmentTime) -> Aim:
    alone = one.partitions == 1
    return Aim(
        name=f"seconds to the first record, log start at {one.offsets:,}, partitions: {one.partitions}",
        wanted=f"< {ALIGNED_LEAST_S:.0f}" if alone else "-",
        measured=f"{one.seconds:.1f} ({one.offsets_per_s / 1e6:.1f} million offsets/s)",
        met=one.seconds < ALIGNED_LEAST_S if alone else None,
    )


def _build_aim(build: BuildTime) -> Aim:
    return Aim(
        name=f"seconds of a run, compacted topic of {build.offsets:,} offsets, {build.live:,} records",
        wanted=f"< {BUILT_LEAST_S:.0f}",
        measured=f"{build.seconds:.1f}",
        met=build.seconds < BUILT_LEAST_S,
    )


async def _measure(pair: ClusterPair, parts: list[str], results: FillResults) -> None:
    async def bulk() -> None:
        results.bulk = await measure_bulk(pair)

    async def tail() -> None:
        results.tail = await measure_tail(pair)

    async def alignment() -> None:
        results.alignments.append(await measure_alignment(pair, partitions=1, offsets=LONGEST))

    async def alignments() -> None:
        results.alignments.append(await measure_alignment(pair, partitions=SEVERAL, offsets=EACH))

    async def compacted() -> None:
        results.build = measure_build(pair, offsets=COMPACTED)

    work: dict[str, Callable[[], Awaitable[Any]]] = {
        "bulk": bulk,
        "tail": tail,
        "alignment": alignment,
        "alignments": alignments,
        "compacted": compacted,
    }
    for part in parts:
        began = time.monotonic()
        await work[part]()
        print(f"{part}: done after {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fills", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these of {', '.join(PARTS)}")
    wanted = parser.parse_args().parts
    unknown = set(wanted) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    parts = [each for each in PARTS if not wanted or each in wanted]
    results = FillResults()
    with cluster_pair(1) as pair:
        uvloop.run(_measure(pair, parts, results))
    aims = aims_of(results)
    console = Console()
    console.print(aims_table(aims))
    content = {"fills": asdict(results), "aims": [asdict(aim) for aim in aims]}
    path = write_json(content, RESULTS, kind="fills")
    console.print(f"written to {path}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
