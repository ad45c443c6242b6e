"""`script/bench`: runs the workloads that were asked for, prints tables, writes JSON.

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
from types import FrameType

from rich.console import Console

from bench import franz_go
from bench.arguments import parser, scope_of
from bench.contender import Contender
from bench.copies import measure_copies
from bench.heliograph_run import HeliographRun
from bench.latencies import LATENCIES
from bench.mirror_maker import MirrorMaker
from bench.names import FRANZ
from bench.other_commit import other_commit
from bench.plain_lane import PlainLane
from bench.recipes import RECIPES
from bench.report import RESULTS, Run, write
from bench.scope import Scope
from bench.tables import show
from bench.workload import Say
from heliograph.model.errors import HeliographError

CONTENDERS: tuple[Contender, ...] = (HeliographRun(), MirrorMaker(), franz_go.FranzGo(), PlainLane())
INTERRUPTED = 130


def main() -> int:
    given = parser([each.code for each in CONTENDERS]).parse_args()
    scope = scope_of(given)
    console = Console()
    run = Run(scope=asdict(scope))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    code = _measure(given, scope, run, console)
    if run.results:
        show(run, console)
        console.print(f"written to {write(run, RESULTS)}", highlight=False, soft_wrap=True)
    return code


def _measure(given: argparse.Namespace, scope: Scope, run: Run, console: Console) -> int:
    began = time.monotonic()

    def say(text: str) -> None:
        at_s = time.monotonic() - began
        console.print(f"[{at_s:5.0f} s] {text}", highlight=False, markup=False, soft_wrap=True)

    try:
        with ExitStack() as undo:
            contenders = _ready([each for each in CONTENDERS if each.code in given.contenders], scope, say)
            if given.against is not None:
                other = undo.enter_context(other_commit(given.against))
                contenders = [other, *contenders]
                run.against = other.name
            run.scope["contenders"] = [each.code for each in contenders]
            for workload in scope.workloads:
                _measure_workload(workload, scope, contenders, run, say)
    except HeliographError as error:
        say(f"error: {error.message}\nhint: {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted: everything that was started is ended")
        return INTERRUPTED
    return 0


def _ready(contenders: list[Contender], scope: Scope, say: Say) -> list[Contender]:
    """Those that can run on this machine, in this scope."""
    if all(each.code != FRANZ for each in contenders):
        return contenders
    go = franz_go.find_go()
    if scope.tls or go is None:
        reason = "its program speaks no TLS" if scope.tls else "go is not installed"
        say(f"franz-go is left out: {reason}")
        return [each for each in contenders if each.code != FRANZ]
    say("building the mirror on franz-go, if its sources are new")
    franz_go.build(go)
    return contenders


def _measure_workload(
    workload: str, scope: Scope, contenders: Sequence[Contender], run: Run, say: Say
) -> None:
    if workload in RECIPES:
        measure_copies(RECIPES[workload], scope, contenders, run, say)
    else:
        LATENCIES[workload](scope, [each for each in contenders if each.tails], run, say)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    # The way out takes seconds; another signal must not leave half of it undone.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
