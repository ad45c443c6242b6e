"""What an operator reads of a transaction that hangs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.cluster.transactions import OpenTransaction, Owner
from heliograph.copier.held_back import held_back
from heliograph.model.events import Event, Trouble
from heliograph.model.partition import TopicPartition

OWNER = Owner(transactional_id="payments-1", state="Ongoing", since_ms=1_700_000_000_000)
FOUND = OpenTransaction(
    where=TopicPartition("orders", 3),
    producer_id=7,
    start_offset=20,
    last_record_ms=1_700_000_060_000,
    owner=OWNER,
    servers="sf:9092",
)


def words(found: OpenTransaction | str | None) -> str:
    told = held_back(found, 20, 45, 30.0)
    assert told.message.startswith("a transaction open at offset 20 of the source (")
    assert told.message.endswith(") has held back 25 offsets for 30 s")
    return told.message.partition("(")[2].rpartition(")")[0]


def test_it_is_named_with_both_ids_since_when_what_it_holds_back_and_how_to_end_it() -> None:
    assert held_back(FOUND, 20, 45, 30.0) == Trouble(
        Event.TRANSACTION_OPEN,
        "a transaction open at offset 20 of the source (producer id 7, transactional id payments-1, open since"
        " 2023-11-14T22:13:20Z) has held back 25 offsets for 30 s",
        20,
        45,
        "kafka-transactions.sh --bootstrap-server sf:9092 abort --topic orders --partition 3 --start-offset 20"
        "  # if its producer is gone: it aborts what was written",
    )


def test_one_that_its_coordinator_has_forgotten_is_told_as_that() -> None:
    forgotten = replace(FOUND, owner=replace(OWNER, state="Empty", since_ms=None))
    assert words(forgotten) == (
        "producer id 7, transactional id payments-1, its coordinator does not know the transaction and says Empty,"
        " its last record is of 2023-11-14T22:14:20Z"
    )


@pytest.mark.parametrize(
    ("last_record_ms", "since"),
    [
        (1_700_000_060_000, "its last record is of 2023-11-14T22:14:20Z"),
        (-1, "since when is not known"),
        (2**63 - 1, "since when is not known"),
    ],
)
def test_without_its_coordinators_word_the_last_record_says_since_when_at_least(
    last_record_ms: int, since: str
) -> None:
    found = replace(FOUND, owner=None, last_record_ms=last_record_ms)
    assert words(found) == f"producer id 7, transactional id not known, {since}"


@pytest.mark.parametrize(
    ("found", "who"),
    [(None, "its producer is not known"), ("it hangs", "its producer cannot be asked for: it hangs")],
)
def test_one_of_which_nothing_is_known_is_told_without_a_hint(found: str | None, who: str) -> None:
    assert words(found) == who
    assert held_back(found, 20, 45, 30.0).hint is None
