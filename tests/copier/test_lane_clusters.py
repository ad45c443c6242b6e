"""The clusters of a lane: what it is sent holds secrets, and does not show them."""

from __future__ import annotations

from heliograph.copier.lane_clusters import LinkClusters


def test_no_property_is_in_a_repr() -> None:
    secret = {"ssl.key.password": "hunter2"}
    link = LinkClusters(
        link="l", source="sf", target="nyc", source_properties=secret, target_properties=secret
    )
    assert "hunter2" not in repr(link)
    assert "sf" in repr(link)
