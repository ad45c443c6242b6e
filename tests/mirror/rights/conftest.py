"""One cluster that checks rights, for all tests of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from heliograph.lab.listeners import Listener
from tests.support.guarded_cluster import Guarded, start_guarded
from tests.support.secured_clusters import Credentials, SecuredCluster

# Not Kafka's default, so that one who may read it is told from one who may not.
STATE_LASTS_MS = 7_200_000
LISTENERS = ("MUTUAL", "PLAIN", "SCRAM")


@pytest.fixture(scope="package")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials.make("guarded", tmp_path_factory.mktemp("guarded") / "files")


@pytest.fixture(scope="package")
def listeners(credentials: Credentials) -> tuple[Listener, ...]:
    return tuple(each for each in credentials.listeners() if each.name in LISTENERS)


@pytest.fixture(scope="package")
def guarded_cluster(listeners: tuple[Listener, ...]) -> Iterator[Guarded]:
    with start_guarded({"producer.id.expiration.ms": str(STATE_LASTS_MS)}, listeners) as guarded:
        yield guarded


@pytest.fixture
def guarded(guarded_cluster: Guarded) -> Guarded:
    """There is no right to anything."""
    guarded_cluster.only()
    return guarded_cluster


@pytest.fixture
def secured(guarded: Guarded, credentials: Credentials, listeners: tuple[Listener, ...]) -> SecuredCluster:
    """The same cluster, by its secured listeners."""
    return SecuredCluster(cluster=guarded.cluster, credentials=credentials, listeners=listeners)
