"""clusters.NAME.properties_file: Java's own file beside the YAML, whose keys win."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.interface.config_file import read_settings
from heliograph.model.errors import ConfigError
from heliograph.model.events import Event
from heliograph.model.settings import Settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LINK = "links: {l: {source: sf, target: nyc, topics: a}}\n"
CONFIG = """
clusters:
  sf:  {properties_file: client.properties%s}
  nyc: {bootstrap.servers: "b:1"}
"""
# What a vendor's console gives out for Java clients.
VENDORS = f"""# Required connection configs for Kafka producer, consumer, and admin
bootstrap.servers=a:1
security.protocol=SASL_SSL
sasl.jaas.config={PLAIN} username='alice' password='hunter2';
sasl.mechanism=PLAIN
client.dns.lookup=use_all_dns_ips
session.timeout.ms=45000
acks=all
schema.registry.url=https://c:1
"""

Read = Callable[..., Settings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Settings of a config in a directory of its own, with client.properties beside it."""

    def read(properties: str, beside: str = "", links: str = LINK) -> Settings:
        for name, text in (("client.properties", properties), ("heliograph.yaml", CONFIG % beside + links)):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o600)
        return read_settings(tmp_path / "heliograph.yaml", environment={})

    return read


def problems_of(read: Read, *arguments: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(*arguments)
    return list(caught.value.problems)


def test_its_keys_are_the_clusters_and_those_of_the_config_win(read: Read) -> None:
    settings = read("bootstrap.servers=a:1\nclient.id=file\nrequest.timeout.ms=5000", ", client.id: yaml")
    assert settings.clusters["sf"] == {
        "bootstrap.servers": "a:1",
        "client.id": "yaml",
        "request.timeout.ms": "5000",
    }
    assert settings.cautions == ()


def test_values_of_the_file_are_taken_as_they_are(read: Read) -> None:
    assert read("bootstrap.servers=a:1\nclient.id=${NAME}").clusters["sf"]["client.id"] == "${NAME}"


def test_what_means_nothing_to_a_mirror_is_left_out_and_told(read: Read) -> None:
    settings = read(VENDORS)
    assert set(settings.clusters["sf"]) == {
        "bootstrap.servers",
        "security.protocol",
        "sasl.jaas.config",
        "sasl.mechanism",
    }
    (caution,) = settings.cautions
    assert caution.code is Event.PLAN_WARNING
    assert caution.message.startswith("cluster 'sf': these properties in ")
    assert caution.message.endswith(": client.dns.lookup, session.timeout.ms, acks, schema.registry.url")


def test_what_the_other_side_alone_has_is_left_out_too(read: Read) -> None:
    settings = read("bootstrap.servers=a:1\nfetch.max.bytes=1000\nmax.request.size=1000")
    assert set(settings.clusters["sf"]) == {"bootstrap.servers", "fetch.max.bytes"}
    assert "max.request.size" in settings.cautions[0].message


def test_a_name_that_is_nearly_right_is_told_with_the_right_one(read: Read) -> None:
    (caution,) = read("bootstrap.servers=a:1\nrequest.timeout=1").cautions
    assert "request.timeout; did you mean request.timeout.ms?" in caution.message


def test_nothing_about_security_is_left_out(read: Read, tmp_path: Path) -> None:
    text = "bootstrap.servers=a:1\nssl.truststor.location=t\nssl.provider=x\nssl.key.password=hunter2"
    file = f"clusters.sf.properties_file: {tmp_path}/client.properties"
    assert problems_of(read, text) == [
        f"{file}: ssl.truststor.location: unknown property; did you mean ssl.truststore.location?",
        f"{file}: ssl.provider: not honoured: TLS is OpenSSL's here, not Java's",
        f"{file}: ssl.key.password: has no effect with security.protocol=PLAINTEXT",
    ]


def test_a_problem_is_told_where_its_property_stands(read: Read, tmp_path: Path) -> None:
    problems = problems_of(read, "bootstrap.servers=a\nfetch.min.bytes=x", ", fetch.max.wait.ms: y")
    assert set(problems) == {
        f"clusters.sf.properties_file: {tmp_path}/client.properties: bootstrap.servers: 'a' is not host:port",
        f"clusters.sf.properties_file: {tmp_path}/client.properties: fetch.min.bytes: 'x' is not a whole number",
        "clusters.sf.fetch.max.wait.ms: 'y' is not a whole number",
    }


def test_a_file_that_cannot_be_read_is_the_only_problem_of_its_cluster(read: Read, tmp_path: Path) -> None:
    read("bootstrap.servers=a:1")
    (tmp_path / "client.properties").unlink()
    with pytest.raises(ConfigError) as caught:
        read_settings(tmp_path / "heliograph.yaml")
    path = tmp_path / "client.properties"
    assert list(caught.value.problems) == [
        f"clusters.sf.properties_file: cannot read {path}: No such file or directory"
    ]
    (problem,) = problems_of(read, "password=hunter2\\u")
    assert problem.startswith(f"clusters.sf.properties_file: {path}: line 1: ")
    assert "hunter2" not in problem


def test_a_link_has_no_properties_file(read: Read) -> None:
    links = "links: {l: {source: sf, target: nyc, topics: a, consumer: {properties_file: x}}}"
    (problem,) = problems_of(read, "bootstrap.servers=a:1", "", links)
    assert problem == "links.l.consumer.properties_file: not honoured: a key of the cluster, not of a link"


@pytest.mark.parametrize("value", ["[a]", "{a: b}"])
def test_a_properties_file_is_named_by_a_text(tmp_path: Path, value: str) -> None:
    (tmp_path / "heliograph.yaml").write_text(CONFIG.replace("client.properties%s", value) + LINK)
    with pytest.raises(ConfigError, match=r"clusters\.sf\.properties_file: expected text"):
        read_settings(tmp_path / "heliograph.yaml")


def test_relative_paths_begin_at_the_configs_directory(read: Read, tmp_path: Path) -> None:
    keytab = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=m principal=m serviceName=k;"
    settings = read(
        f"bootstrap.servers=a:1\nsecurity.protocol=SASL_SSL\nsasl.jaas.config={keytab}",
        ", ssl.truststore.location: stores/t.p12, ssl.keystore.location: /k.p12",
    )
    properties = settings.clusters["sf"]
    assert properties["ssl.truststore.location"] == f"{tmp_path}/stores/t.p12"
    assert properties["ssl.keystore.location"] == "/k.p12"
    assert f'"keyTab"="{tmp_path}/m"' in properties["sasl.jaas.config"]
    links = "links: {l: {source: sf, target: nyc, topics: a, consumer: {ssl.truststore.location: t}}}"
    (link,) = read("bootstrap.servers=a:1\nsecurity.protocol=SSL", "", links).links
    assert link.consumer == {"ssl.truststore.location": f"{tmp_path}/t"}


def test_references_to_files_begin_there_too(read: Read, tmp_path: Path) -> None:
    (tmp_path / "who.properties").write_text("me=alice")
    settings = read("bootstrap.servers=a:1", ", client.id: '${file:who.properties:me}'")
    assert settings.clusters["sf"]["client.id"] == "alice"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfsecurity.protocol=SSL\nbootstrap.servers=a:1\n",
        "\ufeffsecurity.protocol=SSL\n".encode("utf-16-le"),
        "security.protocol=SSL\n".encode("utf-16-be"),
    ],
)
def test_a_file_whose_first_key_java_would_not_know_is_refused(
    read: Read, tmp_path: Path, data: bytes
) -> None:
    read("bootstrap.servers=a:1")
    (tmp_path / "client.properties").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_settings(tmp_path / "heliograph.yaml", environment={})
    assert "save it as UTF-8 without a byte order mark" in caught.value.problems[0]


def test_what_is_about_security_in_other_letters_is_refused_and_not_left_out(read: Read) -> None:
    (problem,) = problems_of(read, "bootstrap.servers=a:1\nSecurity.Protocol=SSL")
    assert "Security.Protocol" in problem


def test_a_pipe_or_a_device_is_not_waited_for(read: Read, tmp_path: Path) -> None:
    read("bootstrap.servers=a:1")
    (tmp_path / "client.properties").unlink()
    os.mkfifo(tmp_path / "client.properties")
    with pytest.raises(ConfigError) as caught:
        read_settings(tmp_path / "heliograph.yaml", environment={})
    assert "client.properties is not a file" in caught.value.problems[0]
