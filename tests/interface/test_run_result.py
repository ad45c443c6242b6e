"""What a run says when it is over."""

from __future__ import annotations

import json
from typing import Any

from heliograph.controller.board import Board
from heliograph.interface.cli.run_result import result_of
from heliograph.model.states import PartitionState
from tests.controller.observed import copy, partition, progress, refusal

DONE, BEHIND, REFUSED = partition(0), partition(1), partition(2)


def result() -> Any:
    board = Board([copy(DONE), copy(BEHIND, next_offset=40)], [refusal(REFUSED)])
    board.report(0, progress(DONE, 100, source_end=120, records=100))
    return json.loads(json.dumps(result_of(board)))


def test_a_partition_is_behind_its_goal_and_not_behind_what_came_since() -> None:
    rows = {row["partition"]: row for row in result()["partitions"]}
    assert [rows[number]["lag_records"] for number in (0, 1, 2)] == [0, 60, None]
    assert rows[2]["state"] == "stopped"
    assert rows[2]["error"] == "somebody else wrote it"


def test_a_link_is_summed_up_and_says_what_is_left() -> None:
    made = result()
    assert not made["caught_up"]
    (link,) = made["links"]
    assert link["link"] == "sf-to-nyc"
    assert [(each["state"], each["lag_records"]) for each in link["summary"]] == [
        ("stopped", None),
        ("pending", 60),
        ("copying", 0),
    ]


def test_a_partition_that_reached_its_goal_needs_no_lane_to_be_caught_up() -> None:
    board = Board([copy(DONE)], [])
    board.report(0, progress(DONE, 100))
    board.lane_gone(0)
    (row,) = result_of(board)["partitions"]
    assert row["state"] == PartitionState.CAUGHT_UP
