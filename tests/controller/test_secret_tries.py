"""When new secrets are tried: soon enough for who changes the config first, and too seldom to lock an account."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from heliograph.controller.secret_tries import LONGEST_PAUSE_S, NewSecrets, SecretTries

QUARTER_S = 900.0


def secrets(*credentials: str, tls: str = "") -> NewSecrets:
    return NewSecrets(credentials=frozenset(credentials), whole=frozenset(each + tls for each in credentials))


@given(st.lists(st.sampled_from([0.5, 5.0, 60.0, 300.0, 901.0]), max_size=300), st.data())
def test_no_secret_is_refused_three_times_within_a_quarter_of_an_hour_or_four_times_at_all(
    waits_s: list[float], data: st.DataObject
) -> None:
    """Whatever else fails meanwhile, and also if TLS changes."""
    tries, now = SecretTries(), 0.0
    refused_at: list[float] = []
    for wait_s in waits_s:
        now += wait_s
        if not tries.due(secrets("p", tls=data.draw(st.sampled_from(["", "new"]))), now):
            continue
        if data.draw(st.booleans()):
            tries.refused("p", now)
            refused_at.append(now)
        else:
            tries.failed(now)
    assert len(refused_at) <= 3
    assert all(third - first > QUARTER_S for first, third in zip(refused_at, refused_at[2:], strict=False))


def test_a_secret_that_has_changed_is_tried_at_once() -> None:
    tries = SecretTries()
    tries.refused("p", 0.0)
    assert not tries.due(secrets("p"), 1.0)
    assert tries.due(secrets("q"), 1.0)


def test_one_refused_secret_of_several_keeps_back_all() -> None:
    tries = SecretTries()
    assert tries.due(secrets("p", "q"), 0.0)
    tries.refused("p", 0.0)
    assert not tries.due(secrets("p", "q"), 1.0)
    assert not tries.due(secrets("p", "r"), 1.0)
    assert tries.due(secrets("r", "q"), 1.0)


def test_a_failure_is_tried_again_after_pauses_that_grow_to_a_minute() -> None:
    tries, now = SecretTries(), 0.0
    tried_at = []
    for _ in range(600):
        now += 1.0
        if tries.due(secrets("p"), now):
            tries.failed(now)
            tried_at.append(now)
    pauses = [later - earlier for earlier, later in pairwise(tried_at)]
    assert pauses[:5] == [5.0, 10.0, 20.0, 40.0, 60.0]
    assert set(pauses[5:]) == {LONGEST_PAUSE_S}


def test_a_failure_is_tried_again_at_once_when_a_file_has_changed_and_is_news_again() -> None:
    tries = SecretTries()
    assert tries.due(secrets("p"), 0.0)
    tries.failed(0.0)
    assert tries.is_news("no such file")
    assert not tries.is_news("no such file")
    assert not tries.due(secrets("p"), 1.0)
    assert tries.due(secrets("p", tls="another"), 1.0)
    assert tries.is_news("no such file")
