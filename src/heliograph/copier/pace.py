"""How eagerly a lane reads at first: brokers may have just started, and compile what they run.

Who asks such a broker for every record by itself, and appends every record by itself, keeps it so busy that all its
clients wait for half a second, the source's producers too, where they could be served in milliseconds. So for some
seconds a fetcher rests after a small answer, for as long as appends take just then, twice over: next to nothing where
brokers are quick. Meanwhile records come together, and go as one. No I/O (docs/decisions/0009).
"""

from __future__ import annotations

EAGER_AFTER_S = 10.0  # by then a broker has compiled what it needs for this
MOST_REST_S = 0.02
TIMES_AN_APPEND = 2
SMALL_BYTES = 1 << 16  # of records: who gets more is not held up


class Pace:
    """Of a lane. `append_s`: how long the last append took."""

    def __init__(self) -> None:
        self.append_s = 0.0

    def rest_s(self, age_s: float, answer_bytes: int) -> float:
        """After an answer with so many bytes of records, for who began to read so long ago."""
        if age_s >= EAGER_AFTER_S or not 0 < answer_bytes < SMALL_BYTES:
            return 0.0
        return min(TIMES_AN_APPEND * self.append_s, MOST_REST_S)
