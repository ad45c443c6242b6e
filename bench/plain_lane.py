"""The product's own lane without Spark, as a contender: what the engine around it costs shows against this.

`python -m bench.plain_lane` is the process: one Lane under uvloop, until the target has `offsets`. The target
topic is made by the harness, as the controller does it in the product.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.clusters import ClusterPair
from bench.contender import CopyJob
from bench.lanes import LaneJob, running_lane

MODULE = "bench.plain_lane"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLane:
    name: str = "plain lane"
    code: str = "plain"
    lane_mark: str | None = MODULE
    ends_itself: bool = True
    tails: bool = False
    reads_committed: bool = True
    keeps_offsets: bool = True

    def prepare(self, job: CopyJob, pair: ClusterPair, directory: Path) -> Sequence[str]:
        del directory  # everything fits on the command line
        pair.target.create(*job.target_topics, partitions=job.partitions)
        return [
            *(sys.executable, "-m", MODULE),
            *("--source", json.dumps(dict(pair.source.mirror_properties))),
            *("--target", json.dumps(dict(pair.target.mirror_properties))),
            # With "=": ids may begin with a hyphen.
            *(f"--source-id={pair.source.cluster_id}", f"--target-id={pair.target.cluster_id}"),
            *("--topic", job.topics[0], "--target-topic", job.target_topics[0]),
            *("--partitions", str(job.partitions), "--offsets", str(job.offsets)),
        ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    for name in ("source", "target"):
        parser.add_argument(f"--{name}", required=True, type=json.loads, help="client properties, as JSON")
    for name in ("source-id", "target-id", "topic", "target-topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--offsets", type=int, required=True)
    return parser.parse_args()


async def _copy(job: LaneJob, offsets: int) -> None:
    async with running_lane(job) as lane:
        await lane.until(lambda: lane.next_offsets >= offsets)


def main() -> None:
    given = vars(_arguments())
    offsets = given.pop("offsets")
    uvloop.run(_copy(LaneJob(**given), offsets))


if __name__ == "__main__":
    main()
