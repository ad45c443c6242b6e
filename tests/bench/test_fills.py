"""What `python -m bench.fills` makes of its looks, and what it aims at."""

from __future__ import annotations

from bench.alignments import AlignmentTime
from bench.compacted import BuildTime
from bench.fills import FillResults, aims_of
from bench.gap_rates import COMMITS_PER_S, TAIL_RECORDS, TAIL_S, WARM_UP_S, BulkRate, Look, tail_lag
from bench.tables import aims_table

SIZE = TAIL_RECORDS + 1
STEP_S = 0.5
COMMITTED = int((WARM_UP_S + TAIL_S) * COMMITS_PER_S) * SIZE


def looks(lag: int, left: int) -> list[Look]:
    """So many transactions behind while commits come, and so many looks later at the end."""
    steps = int((WARM_UP_S + TAIL_S) / STEP_S)
    sources = [int(COMMITTED * n / steps) for n in range(steps + 1)]
    seen = [Look(n * STEP_S, 2 + source, max(2 + source - lag * SIZE, 2)) for n, source in enumerate(sources)]
    after = [Look((steps + n) * STEP_S, 2 + COMMITTED, 2 + COMMITTED - SIZE) for n in range(1, left)]
    return [*seen, *after, Look((steps + left) * STEP_S, 2 + COMMITTED, 2 + COMMITTED)]


def test_who_is_done_soon_after_the_last_commit_has_not_fallen_behind() -> None:
    found = tail_lag(looks(lag=3, left=1))
    assert (found.highest, found.median, found.left_s, found.falls_behind) == (3, 3, STEP_S, False)
    assert found.commits_per_s == COMMITS_PER_S


def test_who_still_copies_seconds_after_the_last_commit_has() -> None:
    found = tail_lag(looks(lag=500, left=5))
    assert (found.highest, found.left_s, found.falls_behind) == (500, 2.5, True)


def test_aims_are_judged_where_there_is_one_and_what_was_not_measured_is_left_out() -> None:
    results = FillResults(
        bulk=BulkRate(offsets=100, seconds=0.01, offsets_per_s=14_999),
        alignments=[
            AlignmentTime(partitions=1, offsets=10, seconds=14.9, offsets_per_s=1),
            AlignmentTime(partitions=4, offsets=10, seconds=99, offsets_per_s=1),
        ],
        build=BuildTime(offsets=20, live=2, seconds=60.1),
    )
    aims = aims_of(results)
    assert [aim.met for aim in aims] == [False, True, None, False]
    verdicts = ["[red]missed[/]", "[green]met[/]", "no aim", "[red]missed[/]"]
    assert list(aims_table(aims).columns[3].cells) == verdicts
