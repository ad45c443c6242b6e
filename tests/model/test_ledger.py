"""Rows and commands: what is read is what was written, the highest term counts, and newer versions are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.command import Command, CommandState, Subject, Wish, decode_command, encode_command
from heliograph.model.ledger import (
    VERSION,
    WHOLE_TOPIC,
    LedgerState,
    Row,
    RowKind,
    RowName,
    UnknownVersion,
    decode_row,
    encode_row,
    pack,
    unpack_fields,
)
from heliograph.model.partition import TopicPartition

NAME = RowName(source_cluster_id="sf", target_topic="orders", partition=3, kind=RowKind.STOP)
AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def taken(*rows: Row) -> LedgerState:
    state = LedgerState()
    for row in rows:
        state.take(*encode_row(row))
    return state


def row(term: int, fields: dict[str, object] | None) -> Row:
    return Row(name=NAME, term=term, fields=fields)


@given(
    st.text(max_size=20),
    st.text(max_size=20),
    st.integers(-1, 1 << 30),
    st.sampled_from(RowKind),
    st.integers(0, 1 << 40),
)
def test_a_row_is_read_as_it_was_written(
    source: str, topic: str, partition: int, kind: RowKind, term: int
) -> None:
    name = RowName(source_cluster_id=source, target_topic=topic, partition=partition, kind=kind)
    written = Row(name=name, term=term, fields={"code": "lost", "unknown": [1, {"deep": None}]})

    assert decode_row(*encode_row(written)) == written
    assert decode_row(encode_row(written)[0], None) == Row(name=name, term=term, fields=None)


def test_the_row_of_the_highest_term_counts_whenever_it_is_written() -> None:
    state = taken(row(7, {"code": "lost"}), row(5, {"code": "late word of a zombie"}))

    assert state.fields(NAME) == {"code": "lost"}


def test_a_zombie_that_removes_its_own_row_hides_nothing() -> None:
    state = taken(row(5, {"code": "lost"}))
    for each in state.carried_on([NAME], term=7):
        state.put(each)
    state.take(*encode_row(row(5, None)))

    assert state.fields(NAME) == {"code": "lost"}
    assert state.term(NAME) == 7


def test_a_zombie_brings_nothing_back() -> None:
    topic = RowName(source_cluster_id="sf", target_topic="orders", partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
    state = taken(Row(name=topic, term=5, fields={}), row(5, {"code": "lost"}), row(5, None))
    for each in state.carried_on(list(state.names("sf")), term=7):
        state.put(each)
    state.take(*encode_row(row(5, {"code": "lost"})))

    assert state.fields(NAME) is None
    assert state.carried_on([NAME], term=9) == [row(5, None)]


def test_a_topics_own_row_is_carried_on_last() -> None:
    topic = RowName(source_cluster_id="sf", target_topic="orders", partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
    state = taken(Row(name=topic, term=5, fields={}), row(5, {"code": "lost"}))

    written = state.carried_on([topic, NAME], term=7)

    assert [(each.name.kind, each.term) for each in written if each.fields is not None] == [
        (RowKind.STOP, 7),
        (RowKind.TOPIC, 7),
    ]


def test_rows_are_carried_on_with_fields_that_are_not_known() -> None:
    state = taken(row(5, {"code": "lost", "of_a_later_version": 1}), row(4, {"code": "older"}))

    kept, *removed = state.carried_on([NAME], term=9)

    assert kept == row(9, {"code": "lost", "of_a_later_version": 1})
    assert removed == [row(5, None), row(4, None)]


def test_what_is_under_the_own_term_already_is_not_written_again() -> None:
    state = taken(row(9, {"code": "lost"}), row(5, {"code": "older"}))

    assert state.carried_on([NAME], term=9) == [row(5, None)]


def test_what_is_removed_is_gone_under_every_term_and_a_topics_own_row_last() -> None:
    topic = RowName(source_cluster_id="sf", target_topic="orders", partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
    state = taken(Row(name=topic, term=5, fields={}), row(5, {"code": "lost"}), row(4, {"code": "older"}))

    removed = state.removed([topic, NAME])

    assert removed == [row(4, None), row(5, None), Row(name=topic, term=5, fields=None)]
    for each in removed:
        state.put(each)
    assert list(state.names("sf")) == []


def test_a_removed_row_is_gone() -> None:
    state = taken(row(5, {"code": "lost"}), row(5, None))

    assert state.fields(NAME) is None
    assert list(state.names("sf")) == []


def test_a_value_of_another_version_is_refused_for_its_topic_alone() -> None:
    key, value = encode_row(row(5, {"code": "lost"}))
    assert value is not None
    state = LedgerState()

    assert state.take(key, bytes([VERSION + 1]) + value[1:]) is None
    assert state.unreadable("orders") is not None
    assert state.unreadable("payments") is None


@pytest.mark.parametrize("key", [b"", b"\x02[]", bytes([VERSION]) + b"{}", bytes([VERSION]) + b"nonsense"])
def test_a_key_that_cannot_be_read_is_refused_for_everything(key: bytes) -> None:
    state = LedgerState()
    state.take(key, b"")

    assert state.unreadable("payments") is not None
    with pytest.raises(UnknownVersion, match="version"):
        decode_row(key, None)


def test_a_kind_that_is_not_known_means_nothing() -> None:
    key = bytes([VERSION]) + json.dumps(["sf", "orders", 0, "of a later version", 1]).encode()
    state = LedgerState()

    assert decode_row(key, b"anything") is None
    assert state.take(key, b"anything") is None
    assert state.unreadable("orders") is None
    assert list(state.names("sf")) == []


@pytest.mark.parametrize(
    "value", [b"", b"\x02{}", b"\x01{", b"\x01[]", b"\x01\xff", b"\x01" + b"[" * 100_000]
)
def test_a_value_that_cannot_be_read_is_refused_for_its_topic_of_its_source_until_it_is_gone(
    value: bytes,
) -> None:
    state = taken(row(5, {"code": "lost"}))
    key, readable = encode_row(row(5, {"code": "raced"}))

    assert state.take(key, value) is None
    assert state.unreadable("orders", "sf") is not None
    assert state.unreadable("orders", "lon") is None
    assert state.unreadable("payments", "sf") is None
    assert state.carried_on([NAME], term=9) == []  # it would take away what a newer version wrote

    state.take(key, None)
    assert state.unreadable("orders", "sf") is None
    state.take(key, value)
    state.take(key, readable)
    assert state.unreadable("orders", "sf") is None
    assert state.fields(NAME) == {"code": "raced"}


@pytest.mark.parametrize(
    "key", [b'\x02["sf","orders",{}]', b'\x01["sf","orders"]', b'\x01["sf","orders","3","stop",true]']
)
def test_a_key_of_another_form_is_refused_for_the_topic_that_it_names(key: bytes) -> None:
    state = LedgerState()
    state.take(key, b"anything")

    problem = state.unreadable("orders", "sf")
    assert problem is not None
    assert f"key is of version {key[0]}" in problem.message
    assert state.unreadable("payments", "sf") is None
    assert state.unreadable("orders", "lon") is None

    state.take(key, None)
    assert state.unreadable("orders", "sf") is None


def test_a_row_with_half_a_pair_of_surrogates_is_carried_on() -> None:
    state = LedgerState()
    key, _ = encode_row(row(5, {}))
    state.take(key, b'\x01{"message":"\\ud800"}')

    (kept, _removed) = state.carried_on([NAME], term=9)
    assert decode_row(*encode_row(kept)) == kept


@given(st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_no_record_at_all_is_the_end_of_a_reader(key: bytes, value: bytes | None) -> None:
    for first in (key, bytes([VERSION]) + key):
        LedgerState().take(first, value)
        CommandState().take(first, value)


# -- commands


def command(wish: Wish, number: int = 1, *, partition: int = 3) -> Command:
    return Command(
        id=f"id {number}",
        wish=wish,
        subject=Subject(source_cluster_id="sf", target_topic="orders", partition=partition),
        at=AT,
        author="ops@here",
        target_topic_id="an id",
        stop="lost",
        loses={3: (10, 20)},
    )


@pytest.mark.parametrize("wish", Wish)
def test_a_command_is_read_as_it_was_written(wish: Wish) -> None:
    assert decode_command(*encode_command(command(wish))) == command(wish)


def test_what_was_shown_as_kept_is_not_accepted_as_lost() -> None:
    cut = replace(command(Wish.REMIRROR), loses={0: (5, 90)}, keeps={0: (10, 60)})
    assert decode_command(*encode_command(cut)) == cut
    shown = [(5, 10), (60, 90), (70, 80)]
    more = [(5, 11), (59, 90), (20, 30), (5, 90), (0, 10), (60, 91)]
    assert [cut.accepts(0, lost) for lost in shown + more] == [True] * 3 + [False] * 6
    assert not cut.accepts(1, (5, 10))


def test_a_command_without_what_is_kept_is_read_as_it_was_meant() -> None:
    key, value = encode_command(replace(command(Wish.REMIRROR), loses={0: (5, 90)}))
    fields = unpack_fields(value)
    del fields["keeps"]
    assert decode_command(key, pack(VERSION, fields)).accepts(0, (20, 30))


def test_the_last_word_on_whether_a_partition_is_copied_counts() -> None:
    state = CommandState()
    for each in (command(Wish.PAUSE, 1), command(Wish.PAUSE, 2, partition=4), command(Wish.RESUME, 3)):
        state.take(*encode_command(each))

    assert sorted((each.subject.partition, each.wish) for each in state.about("sf")) == [
        (3, Wish.RESUME),
        (4, Wish.PAUSE),
    ]
    assert [each.id for each in state.of("sf", TopicPartition("orders", 3))] == ["id 3"]
    assert list(state.about("nyc")) == []


def test_a_command_of_another_version_is_counted_and_left_alone() -> None:
    state = CommandState()
    key, value = encode_command(command(Wish.PAUSE))

    assert state.take(key, bytes([VERSION + 1]) + value[1:]) is None
    assert state.unread == 1


@pytest.mark.parametrize(
    "damage",
    [
        {"loses": []},
        {"loses": {"0": [1]}},
        {"loses": {"0": ["a", "b"]}},
        {"at": "2026-03-01T12:00:00.000"},
        {"at": 5},
        {"id": None},
        {"wish": "dance"},
        {"author": ["me"]},
        {"stop": 5},
    ],
)
def test_a_command_that_cannot_be_read_is_counted_until_it_is_gone(damage: dict[str, object]) -> None:
    state = CommandState()
    key, value = encode_command(command(Wish.PAUSE))
    damaged = bytes([VERSION]) + json.dumps({**json.loads(value[1:]), **damage}).encode()

    assert state.take(key, damaged) is None
    assert state.take(key, damaged) is None
    assert state.unread == 1
    assert sorted(state.about("sf"), key=lambda each: each.at) == []

    state.take(key, None)
    assert state.unread == 0
