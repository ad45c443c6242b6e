"""Which topic a copy began with."""

from __future__ import annotations

from uuid import uuid4

from heliograph.cluster.metadata import NO_ID
from heliograph.copier.topic_ids import SOURCE, TARGET, TopicIds
from heliograph.model.states import StopReason

from .source_batches import PARTITION

ID, OTHER = uuid4(), uuid4()


def test_another_id_is_another_topic() -> None:
    ids = TopicIds(PARTITION)
    assert ids.seen(TARGET, str(ID)) is None
    assert ids.target == ID.bytes
    assert ids.seen(TARGET, "") is None  # not known just now
    recreated = ids.seen(TARGET, str(OTHER))
    assert recreated is not None
    assert recreated.reason is StopReason.RECREATED
    assert ids.target == ID.bytes  # nothing is sent to the other one


def test_a_topic_without_an_id_that_is_not_known_at_first_is_no_other_one() -> None:
    ids = TopicIds(PARTITION)
    assert ids.seen(TARGET, "") is None
    assert ids.seen(TARGET, f"{NO_ID}0") is None
    assert ids.seen(TARGET, f"{NO_ID}1") is not None


def test_a_topic_without_an_id_that_was_remade_is_another_one() -> None:
    ids = TopicIds(PARTITION)
    assert ids.seen(SOURCE, f"{NO_ID}0") is None
    assert ids.seen(SOURCE, f"{NO_ID}0") is None
    recreated = ids.seen(SOURCE, f"{NO_ID}1")
    assert recreated is not None
    assert "source topic orders" in recreated.message


def test_an_upgrade_that_gives_topics_ids_makes_no_other_topic_of_them() -> None:
    ids = TopicIds(PARTITION)
    assert ids.seen(TARGET, f"{NO_ID}0") is None
    assert ids.target == b""
    assert ids.seen(TARGET, str(ID)) is None
    assert ids.seen(TARGET, f"{NO_ID}0") is None  # from a broker that is not upgraded yet
    assert ids.target == ID.bytes
    assert ids.seen(TARGET, str(OTHER)) is not None
