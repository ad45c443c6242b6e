"""A target topic that was being built when its source topic went is told, wherever nobody else speaks of it (P6)."""

from __future__ import annotations

from typing import cast

import pytest

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.client import ClusterClient
from heliograph.controller import half_built as module
from heliograph.controller.build_settings import with_build
from heliograph.controller.half_built import warn_of_half_built
from heliograph.controller.recorded import Recorded
from heliograph.model.command import CommandState
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState, Row, RowKind, RowName

from .observed import LINK, SF_ID, config, snapshot, source_topic

COMPACT = {"cleanup.policy": "compact"}
TARGET = cast(ClusterClient, None)


def mirrored(*topics: str, link: str = LINK.name) -> Recorded:
    state = LedgerState()
    for topic in topics:
        name = RowName(source_cluster_id=SF_ID, target_topic=topic, partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
        state.put(Row(name=name, term=1, fields={"source_topic": topic, "link": link}))
    return Recorded(state, CommandState(), SF_ID)


@pytest.fixture(autouse=True)
def configs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def describe(_client: ClusterClient, topics: dict[str, str]) -> dict[str, TopicConfig]:
        built = {"half": config(with_build(COMPACT)), "whole": config(COMPACT), "plain": config({})}
        unknown = TopicConfig(own={}, effective={}, problem="there is no such topic")
        return {topic: built.get(topic, unknown) for topic in topics}

    monkeypatch.setattr(module, "describe_topic_configs", describe)


async def test_a_half_built_topic_whose_source_is_gone_is_named_with_the_line_that_deletes_it() -> None:
    recorded = mirrored("half", "whole", "plain", "nowhere")
    (warning,) = await warn_of_half_built(TARGET, snapshot(source_topic("orders")), recorded)
    assert "target topic half is half built" in warning
    assert "kafka-topics.sh --bootstrap-server nyc:9092 --delete --topic half" in warning


async def test_one_that_has_its_source_or_is_of_another_link_is_not_spoken_of() -> None:
    assert await warn_of_half_built(TARGET, snapshot(source_topic("half")), mirrored("half")) == []
    assert await warn_of_half_built(TARGET, snapshot(), mirrored("half", link="another")) == []
