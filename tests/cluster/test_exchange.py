"""The exchange of frames without a socket: whatever the cuts, answers find who asked, in order, or nobody at all."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.exchange import Exchange
from heliograph.model.errors import ProtocolError

from .peers import answer

API_KEY, VERSION = 18, 0
LIMIT = 1 << 20


def asked(exchange: Exchange[str], token: str, *parts: bytes, deadline: float = 1.0) -> bytes:
    return b"".join(exchange.ask(API_KEY, VERSION, parts, flexible=False, deadline=deadline, token=token))


Answers = list[tuple[str, bytes]]


def feed(
    exchange: Exchange[str], data: bytes, cuts: list[int] | None = None, into: Answers | None = None
) -> Answers:
    """As a transport does: never more than there is room for, and cut anywhere."""
    answers = [] if into is None else into
    sizes = iter(cuts or [])
    while data:
        room = exchange.room()
        assert len(room) > 0
        nbytes = min(len(room), len(data), next(sizes, len(data)))
        room[:nbytes] = data[:nbytes]
        data = data[nbytes:]
        if (found := exchange.received(nbytes)) is not None:
            answers.append((found[0], bytes(found[1])))
    return answers


def test_a_request_is_its_size_its_header_and_its_parts() -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    sent = asked(exchange, "first", b"ab", b"", b"c")
    assert sent == struct.pack(">ihhih2s3s", 10 + 2 + 3, API_KEY, VERSION, 1, 2, b"me", b"abc")
    assert asked(exchange, "second")[8:12] == struct.pack(">i", 2)
    assert exchange.waiting == 2


def test_the_parts_of_a_request_are_not_copied() -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    part = memoryview(bytearray(b"payload"))
    sent = exchange.ask(API_KEY, VERSION, [part], flexible=False, deadline=1.0, token="first")
    assert sent[1] is part


def test_correlation_ids_begin_again_and_are_never_negative() -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    exchange._correlation_id = 2**31 - 2
    ids = [struct.unpack_from(">i", asked(exchange, "any"), 8)[0] for _ in range(3)]
    assert ids == [2**31 - 1, 0, 1]


@given(bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=8), cuts=st.lists(st.integers(1, 60)))
def test_answers_find_who_asked_however_they_are_cut(bodies: list[bytes], cuts: list[int]) -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    for nth in range(len(bodies)):
        asked(exchange, f"request {nth}")
    data = b"".join(answer(nth + 1, body) for nth, body in enumerate(bodies))
    assert feed(exchange, data, cuts) == [(f"request {nth}", body) for nth, body in enumerate(bodies)]
    assert exchange.waiting == 0


@given(
    garbage=st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda rest: answer(1, b"") + rest)),
    cuts=st.lists(st.integers(1, 20)),
)
def test_whatever_a_peer_says_who_asked_is_answered_or_waits_in_order(
    garbage: bytes, cuts: list[int]
) -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    asked(exchange, "first")
    asked(exchange, "second")
    answered: Answers = []
    with contextlib.suppress(ProtocolError):
        feed(exchange, garbage, cuts, answered)
    assert [token for token, _ in answered] + exchange.give_up() == ["first", "second"]


def test_an_answer_with_another_id_is_refused_and_its_request_still_waits() -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    asked(exchange, "first")
    with pytest.raises(ProtocolError, match="answer 2 where 1 was due"):
        feed(exchange, answer(2, b""))
    assert exchange.give_up() == ["first"]


def test_an_answer_that_nobody_asked_for_is_refused() -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    with pytest.raises(ProtocolError, match="nobody asked"):
        feed(exchange, answer(1, b""))


def test_a_frame_over_the_limit_is_refused_before_there_is_room_for_it() -> None:
    exchange: Exchange[str] = Exchange("me", 100)
    asked(exchange, "first")
    with pytest.raises(ProtocolError, match="over the limit"):
        feed(exchange, struct.pack(">i", 101))


def test_an_answers_bytes_are_its_own() -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    asked(exchange, "first")
    asked(exchange, "second")
    held = []
    for nth, body in enumerate((b"one", b"two")):
        for part in (answer(nth + 1, body)[:4], answer(nth + 1, body)[4:]):
            exchange.room()[:] = part
            found = exchange.received(len(part))
        assert found is not None
        held.append(found[1])
    held[0][0] = ord("O")
    assert [bytes(body) for body in held] == [b"One", b"two"]


def test_the_first_deadline_is_that_of_the_most_impatient_who_waits() -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    assert exchange.first_deadline is None
    for token, deadline in (("a", 5.0), ("b", 3.0), ("c", 4.0)):
        asked(exchange, token, deadline=deadline)
    assert exchange.first_deadline == 3.0
    feed(exchange, answer(1, b"") + answer(2, b""))
    assert exchange.first_deadline == 4.0


def test_giving_up_names_all_that_wait_once() -> None:
    exchange: Exchange[str] = Exchange("me", LIMIT)
    asked(exchange, "first")
    asked(exchange, "second")
    assert (exchange.give_up(), exchange.give_up(), exchange.waiting) == (["first", "second"], [], 0)


def test_what_waits_behind_a_quota_is_due_later() -> None:
    exchange: Exchange[str] = Exchange("mirror", 1 << 20)
    for token, deadline in (("first", 10.0), ("second", 5.0)):
        exchange.ask(0, 0, [b"x"], flexible=False, deadline=deadline, token=token)
    exchange.postpone(40.0)
    assert exchange.first_deadline == 45.0
    assert exchange.give_up() == ["first", "second"]
