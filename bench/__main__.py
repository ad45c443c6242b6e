"""`script/bench`: reads the arguments, runs the parts that were asked for, prints tables, writes JSON.

Ctrl-C and SIGTERM end everything that was started; what was measured until then is still shown and written.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from rich.console import Console

from bench.contender import Contender
from bench.heliograph_run import HeliographRun
from bench.mirror_maker import MirrorMaker
from bench.other_commit import other_commit
from bench.parts import Scope, measure_copies, measure_lane_memory, measure_latencies
from bench.plain_lane import PlainLane
from bench.report import AGAINST, Run, show, write
from bench.workload import Say
from heliograph.model.errors import HeliographError

QUICK = Scope(records=1_500_000, rounds=3, latency_rounds=2, backlog_bytes=500_000_000)
FULL = Scope(records=1_500_000, rounds=7, latency_rounds=3, backlog_bytes=2_000_000_000)
CONTENDERS: tuple[Contender, ...] = (HeliographRun(), MirrorMaker(), PlainLane())
RESULTS = Path(__file__).parent / "results"
INTERRUPTED = 130


def main() -> int:
    given = _parser().parse_args()
    scope = _scope(given)
    contenders = [each for each in CONTENDERS if each.code in given.contenders]
    console = Console()
    run = Run(scope=asdict(scope))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    code = _measure(given, scope, contenders, run, console)
    if run.copies or run.latencies or run.backlog is not None:
        show(run, console)
        console.print(f"written to {write(run, RESULTS)}", highlight=False, soft_wrap=True)
    return code


def _measure(
    given: argparse.Namespace, scope: Scope, contenders: list[Contender], run: Run, console: Console
) -> int:
    began = time.monotonic()

    def say(text: str) -> None:
        at_s = time.monotonic() - began
        console.print(f"[{at_s:5.0f} s] {text}", highlight=False, markup=False, soft_wrap=True)

    try:
        with ExitStack() as undo:
            if given.against is not None:
                other = undo.enter_context(other_commit(given.against))
                contenders = [other, *contenders]
                run.against = other.name
            run.scope["contenders"] = [each.code for each in contenders]
            _measure_parts(given, scope, contenders, run, say)
    except HeliographError as error:
        say(f"error: {error.message}\nhint: {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted: everything that was started is ended")
        return INTERRUPTED
    return 0


def _measure_parts(
    given: argparse.Namespace, scope: Scope, contenders: Sequence[Contender], run: Run, say: Say
) -> None:
    everything = not (given.copy or given.latency or given.memory)
    laned = [each for each in contenders if each.lane_mark is not None and each.code != AGAINST]
    if everything or given.copy:
        measure_copies(scope, contenders, run, say)
    if everything or given.latency:
        measure_latencies(scope, [each for each in contenders if each.tails], run, say)
    if laned and (everything or given.memory):
        measure_lane_memory(scope, laned[0], run, say)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    # The way out takes seconds; another signal must not leave half of it undone.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="script/bench",
        description="Measures Heliograph against MirrorMaker 2 and against its own lane without Spark.",
        epilog="Examples: script/bench --quick, script/bench --quick --against HEAD~1 --contenders heliograph",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="3 rounds, in some minutes (the default)")
    size.add_argument("--full", action="store_true", help="7 rounds and a larger backlog")
    parser.add_argument("--copy", action="store_true", help="only this part: the copy of a full topic")
    parser.add_argument("--latency", action="store_true", help="only this part: latency at 500 records/s")
    parser.add_argument("--memory", action="store_true", help="only this part: memory of a lane")
    parser.add_argument("--records", type=_positive, metavar="N", help="records of the copy")
    parser.add_argument("--rounds", type=_positive, metavar="N", help="rounds of the copy")
    parser.add_argument("--latency-rounds", type=_positive, metavar="N", help="rounds of the latency")
    parser.add_argument(
        "--replication", type=_positive, default=1, metavar="N", help="N brokers a cluster, N replicas (1)"
    )
    parser.add_argument("--backlog-gb", type=float, metavar="GB", help="backlog of the memory part")
    parser.add_argument(
        "--contenders",
        nargs="+",
        choices=[each.code for each in CONTENDERS],
        default=[each.code for each in CONTENDERS],
        help="who takes part (default: all)",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="Heliograph as it was at this commit of the repository takes part too, in copy and latency; the tables"
        " end with the ratio of this version to that one",
    )
    return parser


def _scope(given: argparse.Namespace) -> Scope:
    preset = FULL if given.full else QUICK
    backlog_bytes = preset.backlog_bytes if given.backlog_gb is None else int(given.backlog_gb * 1e9)
    return Scope(
        records=given.records or preset.records,
        rounds=given.rounds or preset.rounds,
        latency_rounds=given.latency_rounds or preset.latency_rounds,
        backlog_bytes=backlog_bytes,
        replication=given.replication,
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
