"""Which markers without a label are of empty transactions of ours, row by row; and when others are fenced off."""

from __future__ import annotations

import pytest

from heliograph.cluster.empty_transactions import FillProducer
from heliograph.copier.own_markers import CHOSEN_FROM, OwnMarkers
from heliograph.copier.questions import FenceFills, ReadProducers
from heliograph.copier.resync import resynchronise
from heliograph.model.fill_way import FillWay
from heliograph.wire.control_batch import ControlMarker, MarkerKind

from .source_batches import spec_of

OURS, FORMER, STRANGER = 4000, 3000, 5000
REMEMBERED = {OURS, STRANGER}


@pytest.mark.parametrize(
    ("producer_id", "kind", "asked", "ours"),
    [
        (OURS, MarkerKind.ABORT, True, True),
        (OURS, MarkerKind.COMMIT, True, False),  # we commit nothing
        (OURS, MarkerKind.OTHER, True, False),
        (OURS, MarkerKind.ABORT, False, False),  # nobody knows yet
        (STRANGER, MarkerKind.ABORT, True, False),  # the leader remembers: it was here within a day
        (
            FORMER,
            MarkerKind.ABORT,
            True,
            True,
        ),  # both have forgotten: the transactional id was idle for a week
        (FORMER, MarkerKind.COMMIT, True, False),
        (CHOSEN_FROM, MarkerKind.ABORT, True, False),  # no broker gives such an id
        (-1, MarkerKind.ABORT, True, False),
    ],
)
def test_a_marker_is_ours_by_the_id_that_its_coordinator_gave(
    producer_id: int, kind: MarkerKind, *, asked: bool, ours: bool
) -> None:
    own = OwnMarkers(OURS if asked else None, REMEMBERED)
    assert own.holds(ControlMarker(kind, producer_id, 0, 0)) is ours


@pytest.mark.parametrize("way", FillWay)
def test_who_fills_by_transactions_fences_others_off_before_anything_is_read(way: FillWay) -> None:
    asking = resynchronise(spec_of(fill_way=way))
    first = next(asking)
    if way is FillWay.TRANSACTIONS:
        assert first == FenceFills()
        first = asking.send(FillProducer(OURS, 0))
    assert first == ReadProducers()
