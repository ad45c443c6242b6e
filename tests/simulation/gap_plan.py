"""Offsets of the sources that hold nothing to copy: transactions, and logs that start above 0; and how the target lets
them be filled.

Drawn by a chance of its own: what else happens in a world does not depend on it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from heliograph.model.policy import EARLIEST, Isolation, OnLoss
from heliograph.model.start import LATEST

from .offset_index import INTERVAL_BYTES
from .source_transactions import NO_TRANSACTIONS, STYLES

# Whether every seed draws them; without, a seed is the world that it was before there were any.
IN_RANDOM_PLANS = True

# Styles of which little or nothing is copied: one partition of a world may have one, or too little would happen in it.
BARREN = ("all aborted", "one for ever")
LINKS = 2
BLOCK_OFFSETS = 4  # of marker labels, where production has 65,536: a world's gaps cross the borders
# Where mirrors of a link begin, but for the sources' start: at their ends, or with what is not so old.
AGED_HOURS = 24
AGED = f"-{AGED_HOURS}h"
# Faults that come with them, in plans that are drawn with them.
ACCEPTED_LOSS = "accepted loss"
QUIET_FAULTS = ("source's retention", "source's retention")
OVERTAKEN = "retention overtakes"
LOUD_FAULTS = (OVERTAKEN,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """`isolations`, `on_loss`, `starts`: of each link. `may_mark`: whether the target lets us write markers.
    `marks_refused`: how often one is for a moment, where it has followers. `forgets_starts`: whether a broker that is
    killed comes back with the log start that it noted last. `index_bytes`: how exactly the source knows which aborted
    transactions to tell."""

    isolations: tuple[Isolation, ...] = (Isolation.READ_COMMITTED,) * LINKS
    on_loss: tuple[OnLoss, ...] = (OnLoss.STOP,) * LINKS
    starts: tuple[str, ...] = (EARLIEST,) * LINKS
    may_mark: bool = True
    marks_refused: float = 0.0
    forgets_starts: bool = False
    block_offsets: int = BLOCK_OFFSETS
    index_bytes: int = INTERVAL_BYTES


NO_GAPS = Gaps()


def gaps_of(seed: int) -> Gaps:
    chance = _chance(seed, "gaps")
    uncommitted = (chance.random() < 0.15 for _ in range(LINKS))
    return Gaps(
        isolations=tuple(
            Isolation.READ_UNCOMMITTED if each else Isolation.READ_COMMITTED for each in uncommitted
        ),
        marks_refused=chance.choice((0.0, 0.0, 0.01, 0.03)),
        index_bytes=chance.choice((0, 200, INTERVAL_BYTES)),
        on_loss=tuple(OnLoss.CONTINUE if chance.random() < 0.4 else OnLoss.STOP for _ in range(LINKS)),
        starts=starts_of(seed),
    )


def styles_of(seed: int, partitions: int) -> list[str]:
    """How the producers of each partition write; some in no transactions."""
    chance = _chance(seed, "styles")
    fertile = tuple(each for each in (NO_TRANSACTIONS, *STYLES) if each not in BARREN)
    styles = [chance.choice(fertile) for _ in range(partitions)]
    if chance.random() < 0.5:
        styles[chance.randrange(partitions)] = chance.choice(BARREN)
    return styles


def log_starts_of(seed: int, partitions: int) -> list[int]:
    """Where each partition's log starts when the mirror begins."""
    chance = _chance(seed, "log starts")
    return [chance.choice((0, 0, 1, 7, 40)) for _ in range(partitions)]


def starts_of(seed: int) -> tuple[str, ...]:
    """Where each link's mirrors begin; most at the source's start."""
    chance = _chance(seed, "beginnings")
    return tuple(chance.choice((EARLIEST, EARLIEST, EARLIEST, LATEST, AGED)) for _ in range(LINKS))


def losses_of(seed: int, from_s: float, until_s: float) -> list[tuple[float, str]]:
    """Of links that go on behind them."""
    chance = _chance(seed, "losses")
    return [(chance.uniform(from_s, until_s), ACCEPTED_LOSS) for _ in range(chance.choice((0, 1, 3)))]


def faults_of(seed: int, from_s: float, until_s: float) -> list[tuple[float, str]]:
    chance = _chance(seed, "faults of gaps")
    count = chance.choice((0, 0, 1, 3))
    return [(chance.uniform(from_s, until_s), chance.choice(QUIET_FAULTS)) for _ in range(count)]


def _chance(seed: int, what: str) -> random.Random:
    return random.Random(f"{seed} {what}")
