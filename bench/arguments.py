"""The command line of `script/bench`, and the scope it asks for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from bench.presets import FULL, QUICK, WORKLOADS
from bench.recipes import RECIPES
from bench.scope import Scope


def parser(contenders: Sequence[str]) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="script/bench",
        description="Measures Heliograph against MirrorMaker 2, against franz-go where go is installed, and against"
        " its own lane without Spark.",
        epilog="Examples: script/bench --quick, script/bench --workloads tiny wide --rounds 1,"
        " script/bench --quick --against HEAD~1 --contenders heliograph",
    )
    size = made.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help=f"{', '.join(QUICK.workloads)}, fewer records (the default)"
    )
    size.add_argument("--full", action="store_true", help="all workloads, about half an hour")
    made.add_argument("--workloads", nargs="+", choices=WORKLOADS, help="only these workloads")
    made.add_argument(
        "--records",
        nargs="+",
        type=_records,
        default=[],
        metavar="WORKLOAD=N",
        help=f"records of {', '.join(RECIPES)}",
    )
    made.add_argument("--rounds", type=_positive, default=QUICK.rounds, metavar="N", help="rounds (3)")
    made.add_argument(
        "--replication", type=_positive, default=1, metavar="N", help="N brokers a cluster, N replicas (1)"
    )
    made.add_argument(
        "--tls", action="store_true", help="mirrors speak TLS 1.3 with both clusters; franz-go is left out"
    )
    made.add_argument(
        "--contenders",
        nargs="+",
        choices=contenders,
        default=contenders,
        help="who takes part (default: all)",
    )
    made.add_argument(
        "--against",
        metavar="COMMIT",
        help="Heliograph as it was at this commit of the repository takes part too; the tables end with the ratio of"
        " this version to that one",
    )
    return made


def scope_of(given: argparse.Namespace) -> Scope:
    preset = FULL if given.full else QUICK
    chosen = given.workloads or preset.workloads
    return replace(
        preset,
        workloads=tuple(each for each in WORKLOADS if each in chosen),
        records={**preset.records, **dict(given.records)},
        rounds=given.rounds,
        replication=given.replication,
        tls=given.tls,
    )


def _records(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in RECIPES or not number:
        raise argparse.ArgumentTypeError(f"{text} is not of the kind tiny=300000")
    return name, _positive(number)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
