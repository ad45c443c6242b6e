"""The document of `topics list`: what is stopped first, complete, and filtered as it was asked for."""

from __future__ import annotations

import json
from typing import Any

from heliograph.model.command import Outcome, Wish
from heliograph.model.ledger import Row, RowKind, RowName
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.states import PartitionState
from heliograph.operations.aim import topic_filters
from heliograph.operations.listing import list_document
from heliograph.operations.looking import LinkView
from tests.controller.observed import LINK, SF_ID

from .scene import NOW, look, sight, stop_row, wished

FINE = sight((0, 100), (0, 90))


def five() -> LinkView:
    """1 stopped, 3 paused, 4 copying and far behind."""
    return look(
        *[FINE] * 5,
        rows=[stop_row(1, first_offset=90, next_offset=95)],
        commands=[wished(Wish.PAUSE, 3)],
        told={
            0: {"source_end": 100, "next_offset": 90},
            4: {"state": PartitionState.COPYING, "source_end": 100, "next_offset": 5},
        },
    )


def listed(seen: LinkView, **filters: Any) -> Any:
    made = list_document([(seen.status, seen.partitions)], PartitionFilter(**filters), NOW)
    return json.loads(json.dumps(made))["links"][0]


def test_what_is_stopped_comes_first_then_what_is_paused_then_what_lags() -> None:
    link = listed(five())
    assert [row["partition"] for row in link["partitions"]] == [1, 3, 4, 0, 2]
    assert link["states"] == {"copying": 1, "paused": 1, "stopped": 1, "unknown": 2}


def test_a_stop_is_told_with_code_offsets_and_time() -> None:
    row = listed(five())["partitions"][0]
    assert (row["state"], row["code"], row["since"]) == ("stopped", "lost", "2026-03-01T11:00:00")
    assert (row["stopped_at"], row["message"], row["hint"]) == ([90, 95], "why: lost", "do")


def test_a_pause_is_told_with_who_asked_for_it() -> None:
    row = listed(five())["partitions"][1]
    assert row["since"] == "2026-03-01T12:00:00.000+00:00"
    assert (row["command"]["author"], row["command"]["outcome"]) == ("ann@desk", None)


def test_what_became_of_a_command_is_told() -> None:
    command = wished(Wish.PAUSE)
    name = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=0, kind=RowKind.ANSWER)
    fields = {"id": command.id, "outcome": Outcome.REFUSED, "message": "another topic", "hint": "again"}
    row = listed(look(FINE, rows=[Row(name=name, term=1, fields=fields)], commands=[command]))["partitions"][
        0
    ]
    assert (row["state"], row["command"]["outcome"]) == ("unknown", "refused")
    assert row["command"]["message"] == "another topic"


def test_filters_keep_what_was_asked_for() -> None:
    def numbers(**filters: Any) -> list[int]:
        return [row["partition"] for row in listed(five(), **filters)["partitions"]]

    assert numbers(states={PartitionState.STOPPED, PartitionState.PAUSED}) == [1, 3]
    assert numbers(codes={"lost"}) == [1]
    assert numbers(topics=topic_filters([LINK], ["orders:0,3"])) == [3, 0]
    assert numbers(topics=topic_filters([LINK], ["others"])) == []


def test_what_is_said_of_a_link_is_of_all_partitions_that_were_asked_for() -> None:
    link = listed(five(), states={PartitionState.STOPPED})
    assert link["states"] == {"copying": 1, "paused": 1, "stopped": 1, "unknown": 2}
    assert [(each["state"], each["partitions"]) for each in link["summary"]] == [
        ("stopped", 1),
        ("unknown", 2),
        ("paused", 1),
        ("copying", 1),
    ]
    one = listed(five(), topics=topic_filters([LINK], ["orders:4"]))
    assert one["summary"] == [{"state": "copying", "partitions": 1, "lag_records": 95}]
    assert [row["partition"] for row in listed(five(), lagging=True)["partitions"]] == [1, 3, 4, 0, 2]
