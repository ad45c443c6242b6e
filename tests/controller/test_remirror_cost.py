"""Where a topic begins that is mirrored anew: as it began, and never behind what its target holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.controller.recorded import Recorded
from heliograph.controller.remirror_cost import begin_again, set_by_hand
from heliograph.controller.snapshot import SourceTopic
from heliograph.model.command import CommandState
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState, Row, RowKind, RowName
from heliograph.model.policy import EARLIEST
from tests.operations.scene import sight

from .observed import SF_ID, config, snapshot, source_topic, target_topic

SOURCE_ID = "id-of-the-source"


def topic_of(target: tuple[int, int] | None) -> SourceTopic:
    return replace(source_topic(sights=[sight((0, 600), target)]), topic_id=SOURCE_ID)


def recorded_of(*, began: int | None = None, source_id: str = SOURCE_ID) -> Recorded:
    state = LedgerState()
    whole = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
    state.put(Row(name=whole, term=1, fields={"source_topic": "orders", "source_topic_id": source_id}))
    if began is not None:
        name = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=0, kind=RowKind.BEGIN)
        fields = {"goal": began, "start": "-7d", "source_topic_id": SOURCE_ID}
        state.put(Row(name=name, term=1, fields=fields))
    return Recorded(state, CommandState(), SF_ID)


@pytest.mark.parametrize(
    ("began", "target", "begins"),
    [
        (
            None,
            (0, 310),
            0,
        ),  # it began at the first record: the config said earliest then, or the ledger is lost
        (None, (500, 520), 500),
        (300, (300, 400), 300),
        (300, (0, 400), 0),  # mirrored from the first record since that was written
        (300, (350, 400), 300),  # the target's retention
        (300, (120, 200), 300),  # it is being aligned to there
        (300, None, 300),
    ],
)
def test_a_topic_begins_where_it_began_and_nothing_that_the_target_holds_is_left_out(
    began: int | None, target: tuple[int, int] | None, begins: int
) -> None:
    source = topic_of(target)
    assert begin_again(recorded_of(began=began), source, target_topic(), "latest") == {0: begins}


def test_where_everything_is_wanted_it_begins_where_the_source_does() -> None:
    source = topic_of((300, 400))
    assert begin_again(recorded_of(began=300), source, target_topic(), EARLIEST) is None


def test_a_partition_of_which_nothing_is_known_begins_as_later_ones_do() -> None:
    source = topic_of(None)
    assert begin_again(recorded_of(), source, target_topic(), "latest") == {}


def test_a_source_topic_that_was_made_again_begins_at_its_first_record() -> None:
    source = topic_of((300, 400))
    assert begin_again(recorded_of(began=300, source_id="another"), source, target_topic(), "latest") == {
        0: 0
    }


def test_what_the_mirror_has_set_itself_is_not_set_by_hand() -> None:
    """The source has changed it since, and the target would have been next."""
    state = LedgerState()
    whole = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
    state.put(Row(name=whole, term=1, fields={"followed": {"retention.ms": "1", "segment.ms": "2"}}))
    target = target_topic(own={"retention.ms": "1", "segment.ms": "3", "flush.ms": "4"})
    source = source_topic(config=config({"retention.ms": "9"}))
    seen = snapshot(source, targets=[target])
    recorded = Recorded(state, CommandState(), SF_ID)
    assert set_by_hand(seen, recorded, source, target) == {"segment.ms": "3", "flush.ms": "4"}
