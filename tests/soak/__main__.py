"""The soak's command line: starts the scene, strikes by seed until the time is over, heals, judges."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.faults import FAULTS
from tests.soak.scene import SoakScene


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--rate", type=int, default=500, help="records produced per second")
    chosen = parser.parse_args()
    say(
        f"seed {chosen.seed}; to repeat: python -m tests.soak --minutes {chosen.minutes:g} --seed {chosen.seed}"
    )
    dice = random.Random(chosen.seed)
    with (
        tempfile.TemporaryDirectory(prefix="h-soak-") as place,
        SoakScene(Path(place), rate_per_s=chosen.rate, seed=chosen.seed) as scene,
    ):
        ends_at = time.monotonic() + 60 * chosen.minutes
        struck = 0
        while time.monotonic() < ends_at:
            fault = dice.choice(FAULTS)
            say(f"{scene.copied():>10,} of {scene.produced:,} copied; next: {fault.__doc__}")
            fault(scene, dice)
            struck += 1
            scene.rest(dice.uniform(2.0, 10.0))
        say(f"{struck} faults; everything is mended, the rest is copied")
        records = scene.finish()
    say(f"identical: {records:,} records after {struck} faults")
    return 0


def say(words: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
