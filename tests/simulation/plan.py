"""What a seed stands for: how many lanes and brokers, what the source holds, which faults happen when."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .source_content import KINDS

FAULTS_FROM_MS, FAULTS_UNTIL_MS = 100, 8_000

QUIET = (
    "lane freezes",
    "lane is killed",
    "lane is cut off",
    "lane is given up",
    "line breaks",
    "messages are lost",
    "hand-over",
    "driver freezes",
    "driver is busy",
    "driver is cut off",
    "driver is killed",
    "lane's clock jumps",
    "brokers' clock jumps",
    "source's leader moves",
    "segment is rolled",
    "broker restarts",
    "leader's epoch grows",
)
QUIET_WITH_REPLICAS = (
    "leader moves",
    "leader moves",
    "unclean election",
    "unclean election",
    "follower lags",
    "followers lag",
)
LOUD = ("foreign writer", "target recreated", "source truncated", "source recreated")
# Kinds of content that the target can always compare: what a race without an election needs.
COMPARED_KINDS = ("fresh", "alike", "big", "future")
# Kinds of content that the target refuses.
REFUSED_KINDS = ("big", "big and old", "future")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`drivers`: those that stand for election, each with `lanes` lanes of its own. `racing`: all of them copy at once,
    as if each were elected.

    `planted_*`: rules of the driver around the copier that planted.py switches off."""

    seed: int
    drivers: int
    lanes: int
    brokers: int
    min_insync: int
    kind: str
    racing: bool
    produces_by_id: bool
    present_at_start: int
    grow_every_ms: int
    expire_every_ms: int
    late: float
    loud: str = ""
    regrows_at_once: bool = False  # a source that is truncated holds other records there already
    faults: tuple[tuple[int, str], ...] = ()
    planted_names_only: bool = False
    planted_no_look: bool = False
    planted_no_epochs: bool = False
    planted_word_without_right: bool = False


def plan_of(seed: int) -> Plan:
    chance = random.Random(seed)
    brokers = chance.choice((1, 3, 3))
    kind = chance.choice(KINDS)
    loud = _loud(chance, kind)
    quiet = QUIET + QUIET_WITH_REPLICAS * 2 if brokers > 1 else QUIET
    faults = [(_when(chance), chance.choice(quiet)) for _ in range(chance.choice((0, 2, 4, 8, 14)))]
    if loud:
        faults.append((_when(chance), loud))
    racing = kind in COMPARED_KINDS and chance.random() < 0.5
    return Plan(
        seed=seed,
        drivers=chance.randint(2, 4) if racing else chance.choice((1, 1, 2)),
        lanes=1 if racing else chance.randint(1, 3),
        brokers=brokers,
        min_insync=chance.choice((1, 2)) if brokers > 1 else 1,
        kind=kind,
        racing=racing,
        produces_by_id=chance.random() < 0.7,
        present_at_start=chance.choice((0, 5, 18, 36)),
        grow_every_ms=chance.choice((20, 100, 400)),
        expire_every_ms=chance.choice((30, 200, 700)),
        late=chance.choice((0.0, 0.02, 0.1, 0.3)),
        loud=loud,
        faults=tuple(sorted(faults)),
    )


def _loud(chance: random.Random, kind: str) -> str:
    if kind in REFUSED_KINDS:
        return ""
    if kind == "alike":
        return (
            "foreign writer"  # what else such records are for: only the sequence tells that one is too many
        )
    return chance.choice(LOUD) if chance.random() < 0.35 else ""


def _when(chance: random.Random) -> int:
    return chance.randrange(FAULTS_FROM_MS, FAULTS_UNTIL_MS)
