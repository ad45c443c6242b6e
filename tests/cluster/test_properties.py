"""Kafka client properties: what is honoured is typed, the rest is refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.batch_target import FOLLOWERS_WAIT_MS
from heliograph.cluster.bootstrap_servers import format_servers
from heliograph.cluster.flight import CAREFUL_UNACKNOWLEDGED_MS, flight_s
from heliograph.cluster.properties import parse_properties, property_problems
from heliograph.cluster.security.settings import NO_SECURITY, Security, SecurityProtocol, TlsSettings
from heliograph.model.errors import ConfigError

MINIMAL = {"bootstrap.servers": "127.0.0.1:9092"}

hosts = st.sampled_from(["localhost", "10.0.0.1", "::1", "fe80::1%eth0", "broker-1.example.org"])
servers = st.lists(st.tuples(hosts, st.integers(1, 65535)), min_size=1, max_size=4).map(tuple)


def problems_of(**changed: str) -> tuple[str, ...]:
    properties = {name.replace("_", "."): value for name, value in changed.items()}
    with pytest.raises(ConfigError) as caught:
        parse_properties(MINIMAL | properties)
    return caught.value.problems


def test_defaults_are_kafkas() -> None:
    properties = parse_properties(MINIMAL)
    assert properties.bootstrap_servers == (("127.0.0.1", 9092),)
    assert properties.client_id == "heliograph"
    assert properties.request_timeout_ms == 30_000
    assert properties.fetch_max_bytes == 52_428_800


@given(servers)
def test_addresses_are_read_as_they_are_written(addresses: tuple[tuple[str, int], ...]) -> None:
    written = format_servers(addresses)
    assert parse_properties({"bootstrap.servers": written}).bootstrap_servers == addresses


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "::1:9092",
        "a b:1",
        "PLAINTEXT://a:1",
        "a..b:1",
        ".a:1",
        f"{'a' * 64}:1",
    ],
)
def test_a_bad_address_is_refused(text: str) -> None:
    assert len(problems_of(bootstrap_servers=text)) == 1


def test_a_client_id_that_cannot_be_sent_is_refused() -> None:
    (problem,) = problems_of(client_id="mirror\udcff")
    assert problem.startswith("client.id: is not UTF-8")


def test_missing_bootstrap_servers_are_told() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers: required"):
        parse_properties({})


def test_all_problems_are_told_at_once() -> None:
    problems = problems_of(request_timeout_ms="30s", fetch_min_bytes="-1", bootstrap_server="x:1", acks="all")
    assert [problem.split(":")[0] for problem in problems] == [
        "request.timeout.ms",
        "fetch.min.bytes",
        "bootstrap.server",
        "acks",
    ]


def test_an_unknown_property_suggests_the_nearest() -> None:
    assert problems_of(request_timeout="1") == (
        "request.timeout: unknown property; did you mean request.timeout.ms?",
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("compression.type", "batches keep theirs"),
        ("enable.idempotence", "always on"),
        ("group.id", "no consumer group"),
        ("auto.offset.reset", "start"),
        ("key.serializer", "batches are copied"),
        ("linger.ms", "never lingers"),
        ("metrics.recording.level", "not built yet"),
        ("ssl.provider", "OpenSSL"),
    ],
)
def test_a_known_property_that_is_not_honoured_is_refused_with_the_reason(name: str, reason: str) -> None:
    (problem,) = property_problems({name: "anything"})
    assert reason in problem
    assert "anything" not in problem


def test_what_the_properties_say_of_security_is_one_value() -> None:
    properties = parse_properties(MINIMAL | {"security.protocol": "SSL", "ssl.protocol": "TLSv1.2"})
    tls = TlsSettings(protocols=("TLSv1.2",))
    assert properties.security == Security(protocol=SecurityProtocol.SSL, tls=tls)
    assert parse_properties(MINIMAL).security == NO_SECURITY


def test_what_is_missing_is_told_of_a_full_set_only() -> None:
    partial = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    assert property_problems(partial) == []
    with pytest.raises(ConfigError) as caught:
        parse_properties(MINIMAL | partial)
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["sasl.jaas.config"]


@pytest.mark.parametrize("text", ["1_000", "1.5", " 1", "", "0x10", "9" * 30])
def test_only_plain_whole_numbers_are_numbers(text: str) -> None:
    assert "is not a whole number" in problems_of(fetch_min_bytes=text)[0]


@pytest.mark.parametrize("name", ["send_buffer_bytes", "receive_buffer_bytes"])
def test_a_socket_buffer_has_a_size_or_is_left_to_the_system(name: str) -> None:
    (problem,) = problems_of(**{name: "0"})
    assert problem.endswith("0 is no size of a buffer; -1 leaves it to the operating system")
    kafka_name = name.replace("_", ".")
    assert property_problems({kafka_name: "-1"}) == property_problems({kafka_name: "1"}) == []


def test_more_in_flight_than_the_broker_remembers_is_refused() -> None:
    assert problems_of(max_in_flight_requests_per_connection="6") == (
        "max.in.flight.requests.per.connection: 6 is not between 1 and 5",
    )


def test_a_fetch_that_waits_longer_than_its_request_is_refused() -> None:
    assert problems_of(request_timeout_ms="1000", fetch_max_wait_ms="1001") == (
        "fetch.max.wait.ms: 1001 is above request.timeout.ms (1000)",
    )


@pytest.mark.parametrize("timeout_ms", ["1", "999"])
def test_a_timeout_that_healthy_brokers_miss_is_refused_with_the_reason(timeout_ms: str) -> None:
    problem = problems_of(request_timeout_ms=timeout_ms, fetch_max_wait_ms="0")
    assert problem == (
        f"request.timeout.ms: {timeout_ms} is below 1000: a healthy broker that waits for followers may be slower,"
        " and whatever it does not answer in time counts as lost",
    )
    assert FOLLOWERS_WAIT_MS < 1000


@pytest.mark.parametrize(
    ("timeout_ms", "on_its_way_s"), [(1000, 5.0), (5000, 5.0), (5001, 5.001), (30_000, 30.0)]
)
def test_an_append_is_on_its_way_for_as_long_as_the_senders_kernel_repeats_it(
    timeout_ms: int, on_its_way_s: float
) -> None:
    assert CAREFUL_UNACKNOWLEDGED_MS == 5000
    assert flight_s(parse_properties(MINIMAL | {"request.timeout.ms": str(timeout_ms)})) == on_its_way_s


@pytest.mark.parametrize("release", ["0.8", "0.9.0.1", "0.10.0", "2.8.2", ""])
def test_a_release_to_fall_back_to_is_taken(release: str) -> None:
    assert parse_properties(MINIMAL | {"broker.version.fallback": release}).broker_version_fallback == release


@pytest.mark.parametrize("release", ["0", "0.7.2", "latest", "0.9.0.1-rc1", "0.9.", "1.2.3.4.5"])
def test_what_is_no_release_to_fall_back_to_is_refused(release: str) -> None:
    (problem,) = problems_of(broker_version_fallback=release)
    assert "0.9.0.1" in problem


@pytest.mark.parametrize("cluster_id", ["a b", "x" * 65, "sf/1", "ä"])
def test_an_id_that_no_group_could_be_named_after_is_refused(cluster_id: str) -> None:
    (problem,) = problems_of(cluster_id=cluster_id)
    assert problem.startswith("cluster.id: ")
