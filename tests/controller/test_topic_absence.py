"""For how long a topic has been unknown: by two brokers' word, each counted by itself, and anew after any doubt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from heliograph.cluster.topic_witnesses import Witness
from heliograph.controller.topic_absence import Absence
from heliograph.wire.error_codes import ErrorCode

NAME, TOPIC_ID, CLUSTER = "orders", "id of orders", "sf-cluster-id"
NO_ID, NO_NAME = int(ErrorCode.UNKNOWN_TOPIC_ID), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def says(
    node: int, *, by_id: int = NO_ID, by_name: int = NO_NAME, cluster: str = CLUSTER, brokers: int = 3
) -> Witness:
    return Witness(
        node=node, cluster_id=cluster, brokers=brokers, by_id={TOPIC_ID: by_id}, by_name={NAME: by_name}
    )


def heard(*looks: tuple[float, Sequence[Witness]]) -> Absence:
    absence = Absence()
    for now, witnesses in looks:
        absence = absence.heard(witnesses, NAME, TOPIC_ID, CLUSTER, now)
    return absence


def every_10_s(to: int, *witnesses: Witness) -> list[tuple[float, Sequence[Witness]]]:
    return [(float(now), witnesses) for now in range(0, to + 1, 10)]


def test_it_lasts_as_long_as_two_brokers_have_been_saying_so() -> None:
    assert heard().lasts_s == 0.0
    assert heard((0.0, [says(1), says(2)])).lasts_s == 0.0
    assert heard(*every_10_s(60, says(1), says(2))).lasts_s == 60.0


def test_the_word_of_one_broker_of_many_is_not_enough() -> None:
    assert heard(*every_10_s(60, says(1), says(1))).lasts_s == 0.0
    looks = every_10_s(60, says(1), says(2))
    assert heard(*looks[:1], *((now, [says(1), says(3)]) for now, _ in looks[1:])).lasts_s == 50.0


def test_the_only_broker_of_a_cluster_is_enough() -> None:
    alone = says(1, brokers=1)
    assert heard(*every_10_s(60, alone, alone)).lasts_s == 60.0


def test_a_broker_that_is_alone_for_now_is_not_the_only_one() -> None:
    assert heard((0.0, [says(1), says(2)]), *every_10_s(60, says(1, brokers=1))[1:]).lasts_s == 0.0


@pytest.mark.parametrize(
    "doubt",
    [
        says(2, by_id=0, by_name=0),
        says(2, by_id=0),
        says(2, by_name=0),
        says(2, by_id=DENIED),
        says(2, by_name=DENIED),
        says(2, by_name=int(ErrorCode.LEADER_NOT_AVAILABLE)),
        says(2, by_id=int(ErrorCode.UNKNOWN_SERVER_ERROR)),
        says(2, cluster="another"),
    ],
)
def test_any_doubt_makes_all_of_them_begin_anew(doubt: Witness) -> None:
    before = every_10_s(50, says(1), says(2))
    assert heard(*before, (55.0, [says(1), doubt])) == Absence()
    assert heard(*before, (55.0, [says(1), doubt]), (60.0, [says(1), says(2)])).lasts_s == 0.0


def test_a_broker_that_was_silent_for_a_while_begins_anew() -> None:
    before = every_10_s(50, says(1), says(2))
    assert heard(*before, (65.0, [says(1), says(2)])).lasts_s == 65.0
    assert heard(*before, (66.0, [says(1), says(2)])).lasts_s == 0.0
    silent = [(float(now), [says(1)]) for now in (60, 70)]
    assert heard(*before, *silent, (80.0, [says(1), says(2)])).lasts_s == 0.0


def test_what_was_said_long_ago_is_not_said_now() -> None:
    before = every_10_s(60, says(1), says(2))
    assert heard(*before, (70.0, [says(1)])).lasts_s == 60.0
    assert heard(*before, (70.0, [says(1)]), (80.0, [says(1)])).lasts_s == 0.0


def test_those_are_asked_on_that_have_been_without_it_for_longest() -> None:
    absence = heard((0.0, [says(3)]), (1.0, [says(3), says(1)]), (2.0, [says(2)]))
    assert absence.longest == [3, 1]
