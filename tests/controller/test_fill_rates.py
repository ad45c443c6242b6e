"""The measured rate of filling gaps: which reports count, and when it is written down."""

from __future__ import annotations

import pytest

from heliograph.controller.fill_rates import OFFSETS_LEAST, WRITTEN_EVERY_S, FillRates
from heliograph.controller.recorded import Recorded
from heliograph.model.command import CommandState
from heliograph.model.fill_rate import FillRate
from heliograph.model.fill_way import FillWay
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState, Row, RowKind, RowName
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus

LINK = "sf-to-nyc"
AT = "2026-11-18T01:02:03.000+00:00"


def told(filled: int, filling_s: float, partition: int = 0, link: str = LINK) -> PartitionStatus:
    key = MirrorPartition(link, "orders", "orders", partition)
    return PartitionStatus(partition=key, filled=filled, filling_s=filling_s)


def test_a_rate_is_all_offsets_by_all_seconds_of_a_link() -> None:
    rates = FillRates()
    for each in (told(1000, 1.0), told(1000, 1.0), told(3000, 2.0), told(500, 0.5, partition=1)):
        rates.report(each)
    rates.report(told(1000, 10.0, link="other"))
    assert rates.rate(LINK) == pytest.approx(3500 / 2.5)


def test_a_lane_that_begins_anew_counts_from_0() -> None:
    rates = FillRates()
    for each in (told(1000, 1.0), told(0, 0.0), told(1000, 3.0)):
        rates.report(each)
    assert rates.rate(LINK) == pytest.approx(2000 / 4.0)


def test_a_few_offsets_are_no_measure() -> None:
    rates = FillRates()
    rates.report(told(OFFSETS_LEAST - 1, 0.1))
    assert rates.rate(LINK) is None
    assert list(rates.due(0.0, over=True)) == []


def test_it_is_written_once_a_minute_and_at_the_end_if_there_is_something_new() -> None:
    rates = FillRates()
    rates.report(told(1000, 1.0))
    assert list(rates.due(5.0)) == [(LINK, 1000.0)]
    rates.report(told(4000, 2.0))
    assert list(rates.due(4.0 + WRITTEN_EVERY_S)) == []
    assert list(rates.due(5.0 + WRITTEN_EVERY_S)) == [(LINK, 2000.0)]
    assert list(rates.due(500.0)) == []
    rates.report(told(6000, 2.0))
    assert list(rates.due(501.0, over=True)) == [(LINK, 3000.0)]
    assert list(rates.due(502.0, over=True)) == []


def row(kind: RowKind, term: int, fields: dict[str, object]) -> Row:
    name = RowName(source_cluster_id="sf", target_topic=LINK, partition=WHOLE_TOPIC, kind=kind)
    return Row(name=name, term=term, fields=fields)


def test_what_is_written_of_a_link_counts_though_a_topic_of_its_name_has_a_term() -> None:
    state = LedgerState()
    recorded = Recorded(state, CommandState(), "sf")
    state.put(row(RowKind.TOPIC, 7, {"source_topic_id": "a", "target_topic_id": "b"}))
    state.put(row(RowKind.LINK, 0, {"topics": {"orders": 1}}))
    assert recorded.rate(LINK) is None
    state.put(row(RowKind.RATE, 0, {"way": "markers", "offsets_per_s": 12_300.5, "at": AT}))
    assert recorded.rate(LINK) == FillRate(FillWay.MARKERS, 12_300.5, AT)
    assert recorded.topics_at_first(LINK) == {"orders": 1}
    assert [name.kind for name in recorded.rows_of(LINK)] == [RowKind.TOPIC]


def test_a_way_that_this_version_does_not_know_is_passed_over() -> None:
    state = LedgerState()
    state.put(row(RowKind.RATE, 0, {"way": "magic", "offsets_per_s": 1.0, "at": AT}))
    assert Recorded(state, CommandState(), "sf").rate(LINK) is None
