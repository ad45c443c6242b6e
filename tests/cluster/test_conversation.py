"""One connection's frames without a socket: whatever the cuts, answers find who asked, in order, or nobody at all."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.conversation import Conversation
from heliograph.model.errors import ProtocolError

from .peers import answer

API_KEY, VERSION = 18, 0
LIMIT = 1 << 20


def asked(conversation: Conversation[str], token: str, *parts: bytes, deadline: float = 1.0) -> bytes:
    return b"".join(conversation.ask(API_KEY, VERSION, parts, flexible=False, deadline=deadline, token=token))


Answers = list[tuple[str, bytes]]


def feed(
    conversation: Conversation[str], data: bytes, cuts: list[int] | None = None, into: Answers | None = None
) -> Answers:
    """As a transport does: never more than there is room for, and cut anywhere."""
    answers = [] if into is None else into
    sizes = iter(cuts or [])
    while data:
        room = conversation.room()
        assert len(room) > 0
        nbytes = min(len(room), len(data), next(sizes, len(data)))
        room[:nbytes] = data[:nbytes]
        data = data[nbytes:]
        if (found := conversation.received(nbytes)) is not None:
            answers.append((found[0], bytes(found[1])))
    return answers


def test_a_request_is_its_size_its_header_and_its_parts() -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    sent = asked(conversation, "first", b"ab", b"", b"c")
    assert sent == struct.pack(">ihhih2s3s", 10 + 2 + 3, API_KEY, VERSION, 1, 2, b"me", b"abc")
    assert asked(conversation, "second")[8:12] == struct.pack(">i", 2)
    assert conversation.waiting == 2


def test_the_parts_of_a_request_are_not_copied() -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    part = memoryview(bytearray(b"payload"))
    sent = conversation.ask(API_KEY, VERSION, [part], flexible=False, deadline=1.0, token="first")
    assert sent[1] is part


def test_correlation_ids_begin_again_and_are_never_negative() -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    conversation._correlation_id = 2**31 - 2
    ids = [struct.unpack_from(">i", asked(conversation, "any"), 8)[0] for _ in range(3)]
    assert ids == [2**31 - 1, 0, 1]


@given(bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=8), cuts=st.lists(st.integers(1, 60)))
def test_answers_find_who_asked_however_they_are_cut(bodies: list[bytes], cuts: list[int]) -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    for nth in range(len(bodies)):
        asked(conversation, f"request {nth}")
    data = b"".join(answer(nth + 1, body) for nth, body in enumerate(bodies))
    assert feed(conversation, data, cuts) == [(f"request {nth}", body) for nth, body in enumerate(bodies)]
    assert conversation.waiting == 0


@given(
    garbage=st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda rest: answer(1, b"") + rest)),
    cuts=st.lists(st.integers(1, 20)),
)
def test_whatever_a_peer_says_who_asked_is_answered_or_waits_in_order(
    garbage: bytes, cuts: list[int]
) -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    asked(conversation, "first")
    asked(conversation, "second")
    answered: Answers = []
    with contextlib.suppress(ProtocolError):
        feed(conversation, garbage, cuts, answered)
    assert [token for token, _ in answered] + conversation.give_up() == ["first", "second"]


def test_an_answer_with_another_id_is_refused_and_its_request_still_waits() -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    asked(conversation, "first")
    with pytest.raises(ProtocolError, match="answer 2 where 1 was due"):
        feed(conversation, answer(2, b""))
    assert conversation.give_up() == ["first"]


def test_an_answer_that_nobody_asked_for_is_refused() -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    with pytest.raises(ProtocolError, match="nobody asked"):
        feed(conversation, answer(1, b""))


def test_a_frame_over_the_limit_is_refused_before_there_is_room_for_it() -> None:
    conversation: Conversation[str] = Conversation("me", 100)
    asked(conversation, "first")
    with pytest.raises(ProtocolError, match="over the limit"):
        feed(conversation, struct.pack(">i", 101))


def test_an_answers_bytes_are_its_own() -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    asked(conversation, "first")
    asked(conversation, "second")
    held = []
    for nth, body in enumerate((b"one", b"two")):
        for part in (answer(nth + 1, body)[:4], answer(nth + 1, body)[4:]):
            conversation.room()[:] = part
            found = conversation.received(len(part))
        assert found is not None
        held.append(found[1])
    held[0][0] = ord("O")
    assert [bytes(body) for body in held] == [b"One", b"two"]


def test_the_first_deadline_is_that_of_the_most_impatient_who_waits() -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    assert conversation.first_deadline is None
    for token, deadline in (("a", 5.0), ("b", 3.0), ("c", 4.0)):
        asked(conversation, token, deadline=deadline)
    assert conversation.first_deadline == 3.0
    feed(conversation, answer(1, b"") + answer(2, b""))
    assert conversation.first_deadline == 4.0


def test_giving_up_names_all_that_wait_once() -> None:
    conversation: Conversation[str] = Conversation("me", LIMIT)
    asked(conversation, "first")
    asked(conversation, "second")
    assert (conversation.give_up(), conversation.give_up(), conversation.waiting) == (
        ["first", "second"],
        [],
        0,
    )


def test_what_waits_behind_a_quota_is_due_later() -> None:
    conversation: Conversation[str] = Conversation("mirror", 1 << 20)
    for token, deadline in (("first", 10.0), ("second", 5.0)):
        conversation.ask(0, 0, [b"x"], flexible=False, deadline=deadline, token=token)
    conversation.postpone(40.0)
    assert conversation.first_deadline == 45.0
    assert conversation.give_up() == ["first", "second"]
