"""Which lanes of a world merge small batches, how large a batch its target topics take, and how its sources compress.

Drawn by a chance of its own: what else happens in a world does not depend on it.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from .raw_batch import Sizes
from .source_content import CODECS, MOST_BYTES, PLAIN

NEVER_S = math.inf
LINKS = 2
LARGE = Sizes()
# A merged batch of as much holds two to four of the source's.
SMALL = (
    Sizes(max_message_bytes=MOST_BYTES),
    Sizes(max_message_bytes=MOST_BYTES + 40),
    Sizes(segment_bytes=MOST_BYTES + 10),
)
# How many of the source's batches an append holds as a rule: what comes with one fetch (PROPERTIES of world.py), or
# what the target takes. A world that sees too few appends all the same is lengthened at its end.
BATCHES_OF_FETCH, BATCHES_OF_SMALL = 5, 2
BATCHES_RACED = 3  # where some lanes merge and others, that race with them, do not


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """`kernels_s`: for each driver, how long after its start a lane of it has the kernels loaded. `sizes`: what the
    target topic of each link takes."""

    kernels_s: tuple[float, ...] = (NEVER_S,)
    sizes: tuple[Sizes, ...] = (LARGE,) * LINKS

    def kernels_s_of(self, driver: int) -> float:
        return self.kernels_s[driver % len(self.kernels_s)]

    @property
    def happens(self) -> bool:
        """Whether some lane merges."""
        return min(self.kernels_s) < NEVER_S

    def batches_at_once(self, link: int) -> int:
        """How many of the source's batches one append may hold."""
        if not self.happens:
            return 1
        if self.sizes[link] != LARGE:
            return BATCHES_OF_SMALL
        return BATCHES_RACED if NEVER_S in self.kernels_s else BATCHES_OF_FETCH


NO_MERGING = Merging()


def merging_of(seed: int, *, racing: bool) -> Merging:
    """In about half of the worlds. Where drivers race: of one, of the other, of both, or of none."""
    chance = random.Random(f"{seed} merging")
    later_s = chance.choice((0.0, 5.0))
    some: list[tuple[float, ...]] = [(0.0, later_s)]
    if racing:
        some += [(0.0, NEVER_S), (NEVER_S, 0.0)]
    kernels_s = chance.choice(some) if chance.random() < 0.5 + 0.2 * racing else (NEVER_S,)
    sizes = tuple(LARGE if chance.random() < 0.5 else chance.choice(SMALL) for _ in range(LINKS))
    return Merging(kernels_s=kernels_s, sizes=sizes)


def codecs_of(seed: int, partitions: int) -> list[str]:
    """How the batches of each partition are compressed; most are not."""
    chance = random.Random(f"{seed} codecs")
    return [PLAIN if chance.random() < 0.5 else chance.choice(tuple(CODECS)) for _ in range(partitions)]
