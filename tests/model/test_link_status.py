"""How a link stands: the same value for whoever asks, and what follows from its partitions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heliograph.model.link_status import LinkStatus, RoleName, decode_link, encode_link, published_link
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import BoundBy, PartitionState

LINK = LinkStatus(
    link="sf-to-nyc",
    source="sf",
    target="nyc",
    servers=("sf:9092", "nyc:9092"),
    source_cluster_id="sf-id",
    role=RoleName.ACTIVE,
    records_per_s=1.5,
    bytes_per_s=20.0,
    bound_by=BoundBy.TARGET,
)


def row(state: PartitionState, **said: Any) -> PartitionStatus:
    return PartitionStatus(partition=MirrorPartition("sf-to-nyc", "orders", "orders", 0), state=state, **said)


@pytest.mark.parametrize("status", [LINK, LinkStatus(link="bare")])
def test_what_a_driver_tells_of_a_link_is_the_same_for_whoever_asks(status: LinkStatus) -> None:
    assert decode_link(status.link, json.loads(json.dumps(encode_link(status)))) == status


def test_what_a_mirror_of_the_version_before_says_of_a_link_is_taken_as_far_as_it_goes() -> None:
    assert decode_link("l", {"servers": ["a", "b"], "role": "standby"}) == LinkStatus(
        link="l", servers=("a", "b"), role=RoleName.STANDBY
    )


def test_what_is_published_is_plain_text_and_numbers() -> None:
    made = published_link(LINK)
    assert {type(value) for value in made.values()} <= {str, float, int, list, type(None)}
    assert (made["bound_by"], made["state"], made["partitions"]) == ("target", "unknown", [])


def test_a_lag_is_not_known_of_a_link_whose_cluster_is_away() -> None:
    link = LinkStatus(
        link="l", partitions=(row(PartitionState.COPYING, source_end=9, next_offset=4, lag_ms=7),)
    )
    assert (link.lag_records, link.lag_ms) == (5, 7)
    away = LinkStatus(link="l", partitions=link.partitions, error="it is away")
    assert (away.lag_records, away.lag_ms) == (None, None)
