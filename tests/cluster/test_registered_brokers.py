"""How many replicas a topic may have: brokers that are down count where the others tell of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.registered_brokers import brokers_for
from heliograph.model.errors import BrokerRefused, Disconnected, HeliographError
from heliograph.wire.error_codes import ErrorCode


class Cluster:
    """Two of its brokers are up. `problem`: why nobody tells of the others."""

    def __init__(self, registered: int, problem: HeliographError | None = None) -> None:
        self.metadata = SimpleNamespace(brokers={1: None, 2: None})
        self.asked = 0
        self._registered, self._problem = registered, problem

    async def call(self, _node: int, request: Any, _response: Any) -> Any:
        self.asked += 1
        assert request.include_fenced_brokers
        if self._problem is not None:
            raise self._problem
        return SimpleNamespace(error_code=0, brokers=[None] * self._registered)


async def brokers(cluster: Cluster, replicas: int) -> int:
    return await brokers_for(cast(ClusterClient, cluster), replicas)


@pytest.mark.parametrize(("replicas", "registered", "count"), [(2, 3, 2), (3, 3, 3), (3, 2, 2), (5, 4, 4)])
async def test_all_that_are_registered_count_and_nobody_is_asked_where_enough_are_up(
    replicas: int, registered: int, count: int
) -> None:
    cluster = Cluster(registered)
    assert await brokers(cluster, replicas) == count
    assert bool(cluster.asked) == (replicas > 2)


@pytest.mark.parametrize(
    "problem", [Disconnected("gone"), BrokerRefused("too old", code=ErrorCode.UNSUPPORTED_VERSION)]
)
async def test_where_nobody_tells_those_that_are_up_count(problem: HeliographError) -> None:
    assert await brokers(Cluster(3, problem), 3) == 2
