"""The phases of a copy as a table: every row by name, and none that nobody knows of."""

from __future__ import annotations

import pytest

from heliograph.copier.phases import NEXT, OVER, SENDING, Happening, Phase, after

ROWS = [
    "RESYNC  SYNCED    PROBE",
    "RESYNC  TROUBLE   RESYNC",
    "RESYNC  STOP      STOPPED",
    "RESYNC  RETIRE    RETIRED",
    "PROBE   TOOK_OLD  PROBE",
    "PROBE   ACKED     STREAM",
    "PROBE   ACKED_OLD PROBE",
    "PROBE   DOUBTED   PROBE",
    "PROBE   TROUBLE   DRAIN",
    "PROBE   STOP      STOPPED",
    "PROBE   RETIRE    RETIRED",
    "STREAM  TOOK_OLD  PROBE",
    "STREAM  ACKED     STREAM",
    "STREAM  ACKED_OLD PROBE",
    "STREAM  DOUBTED   PROBE",
    "STREAM  TROUBLE   DRAIN",
    "STREAM  STOP      STOPPED",
    "STREAM  RETIRE    RETIRED",
    "PROBE   MET_GAP   FILL",
    "STREAM  MET_GAP   FILL",
    "FILL    FILLED    PROBE",
    "FILL    DOUBTED   FILL",
    "FILL    TROUBLE   DRAIN",
    "FILL    STOP      STOPPED",
    "FILL    RETIRE    RETIRED",
    "DRAIN   TROUBLE   DRAIN",
    "DRAIN   SETTLED   RESYNC",
    "DRAIN   STOP      STOPPED",
    "DRAIN   RETIRE    RETIRED",
    "STOPPED TROUBLE   STOPPED",
    "STOPPED SETTLED   STOPPED",
    "STOPPED STOP      STOPPED",
    "STOPPED RETIRE    STOPPED",
    "RETIRED TROUBLE   RETIRED",
    "RETIRED SETTLED   RETIRED",
    "RETIRED STOP      STOPPED",
    "RETIRED RETIRE    RETIRED",
]
PAIRS = {tuple(row.split()[:2]) for row in ROWS}


@pytest.mark.parametrize("row", ROWS)
def test_a_happening_leads_to_its_phase(row: str) -> None:
    phase, happening, following = row.split()
    assert after(Phase[phase], Happening[happening]) is Phase[following]


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("happening", Happening)
def test_what_is_not_in_the_table_is_a_bug(phase: Phase, happening: Happening) -> None:
    if (phase.name, happening.name) not in PAIRS:
        with pytest.raises(AssertionError, match=phase.name):
            after(phase, happening)


def test_only_an_acknowledgement_opens_the_pipeline() -> None:
    ways_in = {
        happening
        for phase, row in NEXT.items()
        for happening, following in row.items()
        if following is Phase.STREAM and phase is not Phase.STREAM
    }
    assert ways_in == {Happening.ACKED}


def test_nothing_is_sent_again_before_the_target_was_asked() -> None:
    for phase in set(Phase) - SENDING:
        for happening, following in NEXT[phase].items():
            # What a fill has written was read back.
            assert following not in SENDING or happening in (Happening.SYNCED, Happening.FILLED)


def test_what_is_over_stays_over() -> None:
    for phase in OVER:
        assert set(NEXT[phase].values()) <= OVER
