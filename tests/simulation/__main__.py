"""`python -m tests.simulation`: one seed with its trace, many seeds over all cores, or the table of planted bugs."""

from __future__ import annotations

import argparse
import sys
import time

from .many import in_words, run_many, too_small
from .world import run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="tell the story of one seed")
    what.add_argument("--seeds", type=int, help="how many seeds to run")
    what.add_argument("--planted", action="store_true", help="switch each rule off and show what finds it")
    parser.add_argument(
        "--note", action="store_true", help="with --planted: write down which seed finds what"
    )
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    asked = parser.parse_args()
    if asked.planted:
        from .planted import show_table

        return show_table(_say, note=asked.note)
    if asked.seed is not None:
        return _tell(asked.seed)
    return _run_many(range(asked.first, asked.first + asked.seeds))


def _say(words: str, *, end: str = "\n") -> None:
    sys.stdout.write(words + end)
    sys.stdout.flush()


def _tell(seed: int) -> int:
    verdict = run_seed(seed, _say)
    _say(f"{verdict.plan}")
    _say(f"seed {seed}: {verdict.wrong or 'right'}")
    return int(bool(verdict.wrong))


def _run_many(seeds: range) -> int:
    began, wrong, verdicts = time.monotonic(), 0, []
    for verdict in run_many(seeds):
        verdicts.append(verdict)
        if verdict.wrong:
            wrong += 1
            _say(f"\r{verdict.command}    # {verdict.wrong}")
        elif too_small(verdict):
            wrong += 1
            _say(f"\r{verdict.command}    # too small: {verdict.met}")
        rate = len(verdicts) / (time.monotonic() - began)
        _say(f"\r{len(verdicts)} of {len(seeds)} seeds, {wrong} wrong, {rate:.0f}/s ", end="")
    _say(f"\n{in_words(verdicts)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
