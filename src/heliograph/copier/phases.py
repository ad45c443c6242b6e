"""The phases of one partition's copy, and what leads from one to the next: a table, tested row by row.

    RESYNC ──(synced)──▶ PROBE ──(acknowledged where expected)──▶ STREAM
      ▲                    │  ▲                                     │
      │                    │  └─── FILL ◀──(a gap is next)──────────┤
      └───── DRAIN ◀───────┴── error, unknown outcome, duplicate ───┘
    any ──▶ STOPPED: an integrity error, or a batch that cannot be copied; never left
    any ──▶ RETIRED: the partition is no longer ours; answers that are due are awaited

RESYNC   ask the target where the copy stands (copier/resync.py); nothing is fetched or sent.
PROBE    one append goes alone: only its acknowledgement shows that the broker has state for our producer id.
         Were a second one behind it and the first refused, the second would count as the first ever: loss.
STREAM   as many appends in flight as the caller likes, in order, on one connection.
FILL     offsets that hold no record to copy are filled with markers (copier/fill.py): a barrier. All before them is
         acknowledged, and nothing goes behind them until the target's end was read back and is the gap's end.
DRAIN    an append failed: every answer that is due is awaited before the target is asked again, because a
         request of a closed connection may still execute.

A pair that is not in the table cannot happen: it is a bug of ours.
"""

from __future__ import annotations

from enum import IntEnum, auto


# Of numbers: they are looked up several times for every batch, and the hash of any other Enum is computed in Python.
class Phase(IntEnum):
    RESYNC = auto()
    PROBE = auto()
    STREAM = auto()
    FILL = auto()
    DRAIN = auto()
    STOPPED = auto()
    RETIRED = auto()


class Happening(IntEnum):
    SYNCED = auto()  # the target has told where the copy stands
    TOOK_OLD = auto()  # a perishable batch is on its way: the broker may forget us right behind it
    ACKED = auto()  # an append is where it was meant to be, and the broker remembers us by it
    ACKED_OLD = auto()  # the same of a perishable one: the broker may not remember us
    MET_GAP = auto()  # the next offsets hold no record to copy, and no answer is due
    FILLED = auto()  # the target's end was read back behind them
    DOUBTED = auto()  # the broker may have forgotten us while nothing was written
    TROUBLE = auto()  # what is known of the target is out of date
    SETTLED = auto()  # the last answer that was due is there
    STOP = auto()
    RETIRE = auto()


P, H = Phase, Happening
_ANYWHERE = {H.STOP: P.STOPPED, H.RETIRE: P.RETIRED}
_SENDING = {
    H.TOOK_OLD: P.PROBE,
    H.ACKED: P.STREAM,
    H.ACKED_OLD: P.PROBE,
    H.DOUBTED: P.PROBE,
    H.MET_GAP: P.FILL,
    H.TROUBLE: P.DRAIN,
    **_ANYWHERE,
}

NEXT: dict[Phase, dict[Happening, Phase]] = {
    P.RESYNC: {H.SYNCED: P.PROBE, H.TROUBLE: P.RESYNC, **_ANYWHERE},
    P.PROBE: _SENDING,
    P.STREAM: _SENDING,
    # Markers leave what the broker remembers of our own id as it is; yet the next append goes alone, as after any
    # change that is not an append.
    P.FILL: {H.FILLED: P.PROBE, H.DOUBTED: P.FILL, H.TROUBLE: P.DRAIN, **_ANYWHERE},
    P.DRAIN: {H.TROUBLE: P.DRAIN, H.SETTLED: P.RESYNC, **_ANYWHERE},
    P.STOPPED: {H.TROUBLE: P.STOPPED, H.SETTLED: P.STOPPED, H.STOP: P.STOPPED, H.RETIRE: P.STOPPED},
    # An append of ours that turns out to be in the wrong place stops the partition for whoever comes next, too.
    P.RETIRED: {H.TROUBLE: P.RETIRED, H.SETTLED: P.RETIRED, H.STOP: P.STOPPED, H.RETIRE: P.RETIRED},
}

SENDING = frozenset({P.PROBE, P.STREAM})
FLOWING = SENDING | {P.FILL}  # it knows where it stands, and fetches
OVER = frozenset({P.STOPPED, P.RETIRED})


def after(phase: Phase, happening: Happening) -> Phase:
    following = NEXT[phase].get(happening)
    assert following is not None, f"{happening.name} in {phase.name}"
    return following
