"""One cluster that checks rights, for all tests of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.guarded_cluster import Guarded, start_guarded

# Not Kafka's default, so that one who may read it is told from one who may not.
STATE_LASTS_MS = 7_200_000


@pytest.fixture(scope="package")
def guarded_cluster() -> Iterator[Guarded]:
    with start_guarded({"producer.id.expiration.ms": str(STATE_LASTS_MS)}) as guarded:
        yield guarded


@pytest.fixture
def guarded(guarded_cluster: Guarded) -> Guarded:
    """There is no right to anything."""
    guarded_cluster.only()
    return guarded_cluster
