"""Passwords and certificates of the secured pair change while it runs, and librdkafka notices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError

from tests.support.certificates import Authority
from tests.support.client_access import Access
from tests.support.refusals import refusal
from tests.support.rotation import renew_certificate, set_password, shown_certificate
from tests.support.secured_clusters import USER, SecuredCluster, SecuredPair

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def cluster(secured_pair: SecuredPair) -> Iterator[SecuredCluster]:
    """Made good again: others use it, too."""
    cluster = secured_pair.source
    yield cluster
    set_password(cluster.plain, USER, cluster.credentials.users[USER])
    renew_certificate(cluster, "SCRAM", cluster.credentials.authority.issue(["localhost"]))


def comes_in(access: Access) -> bool:
    client = Consumer(
        {**access.librdkafka, "bootstrap.servers": access.bootstrap_servers, "group.id": "known"}
    )
    try:
        return bool(client.list_topics(timeout=20).brokers)
    finally:
        client.close()


def test_a_changed_password_lets_nobody_in_by_the_old_one(cluster: SecuredCluster) -> None:
    assert comes_in(cluster.access("SCRAM"))
    set_password(cluster.plain, USER, "another")
    assert refusal(cluster.access("SCRAM")).code() == KafkaError._AUTHENTICATION
    assert comes_in(cluster.access("SCRAM", password="another"))


def test_a_user_is_made_while_the_cluster_runs(cluster: SecuredCluster) -> None:
    set_password(cluster.plain, "a,b=c", "of them", mechanism="SCRAM-SHA-256")
    assert comes_in(cluster.access("SCRAM", mechanism="SCRAM-SHA-256", user="a,b=c", password="of them"))


def test_a_renewed_certificate_is_shown_and_trusted(cluster: SecuredCluster) -> None:
    server = cluster.cluster.servers("SCRAM")
    before = shown_certificate(server)
    renew_certificate(cluster, "SCRAM", cluster.credentials.authority.issue(["localhost"]))
    assert shown_certificate(server) != before
    assert comes_in(cluster.access("SCRAM"))


def test_a_certificate_of_another_authority_is_shown_and_not_trusted(cluster: SecuredCluster) -> None:
    renew_certificate(cluster, "SCRAM", Authority.make("another").issue(["localhost"]))
    assert "verify failed" in refusal(cluster.access("SCRAM")).str()


def test_other_listeners_keep_their_certificates(cluster: SecuredCluster) -> None:
    server = cluster.cluster.servers("ONE_WAY")
    before = shown_certificate(server)
    renew_certificate(cluster, "SCRAM", cluster.credentials.authority.issue(["localhost"]))
    assert shown_certificate(server) == before
