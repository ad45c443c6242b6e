"""What every test may ask for: two real clusters shared by the session, and topic names nobody else has."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest

from heliograph.lab.cluster import LabCluster


@pytest.fixture(scope="session")
def source_cluster() -> Iterator[LabCluster]:
    with LabCluster.start(name="source") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def target_cluster() -> Iterator[LabCluster]:
    with LabCluster.start(name="target") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def unique_topic() -> Callable[[str], str]:
    """Makes topic names: `unique_topic("orders")` is another one at every call, in every session."""
    session = uuid.uuid4().hex[:8]
    numbers = itertools.count(1)
    return lambda stem: f"{stem}-{session}-{next(numbers)}"
