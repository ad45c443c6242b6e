from __future__ import annotations

import socket
import stat
from pathlib import Path

from heliograph.lab.settings import (
    PORTS,
    broker_settings,
    choose_nodes,
    free_ports,
    write_settings,
    zookeeper_broker_settings,
)
from heliograph.lab.zookeeper import zookeeper_settings


def _settings(count: int, **properties: str) -> dict[str, str]:
    nodes = choose_nodes(count)
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return broker_settings(nodes[0], nodes=nodes, data_directory=Path("/data"), properties=named)


def test_internal_topics_have_as_many_replicas_as_there_are_brokers_up_to_three() -> None:
    assert [_settings(n)["offsets.topic.replication.factor"] for n in (1, 2, 3, 5)] == ["1", "2", "3", "3"]


def test_every_node_votes() -> None:
    assert _settings(3)["controller.quorum.voters"].count("@127.0.0.1:") == 3


def test_the_callers_property_overrides_a_default() -> None:
    assert _settings(1, auto_create_topics_enable="true")["auto.create.topics.enable"] == "true"


def test_ports_in_use_are_not_chosen() -> None:
    with socket.socket() as taken:
        (port,) = free_ports(1)
        taken.bind(("127.0.0.1", port))
        assert port not in free_ports(200)


def test_ports_are_distinct_and_outside_the_range_of_outgoing_connections() -> None:
    ports = free_ports(40)
    assert len(set(ports)) == 40
    assert all(port in PORTS for port in ports)


def test_a_backslash_survives_the_properties_file(tmp_path: Path) -> None:
    write_settings(tmp_path / "p", {"key": "a\\b"})
    assert (tmp_path / "p").read_text() == "key=a\\\\b\n"


def test_what_is_not_ascii_is_written_as_java_reads_it(tmp_path: Path) -> None:
    write_settings(tmp_path / "p", {"key": 'größer "𝄞"'})
    assert (tmp_path / "p").read_bytes() == rb"key=gr\u00f6\u00dfer \"\ud834\udd1e\"" + b"\n"


def test_settings_with_passwords_of_users_are_for_their_owner_only(tmp_path: Path) -> None:
    write_settings(tmp_path / "p", {"key": "value"})
    assert stat.S_IMODE((tmp_path / "p").stat().st_mode) == 0o600


def test_a_broker_with_zookeeper_listens_on_loopback_as_its_release_writes_it() -> None:
    nodes = choose_nodes(1)
    port = str(nodes[0].port)

    def settings(*, has_listeners: bool) -> dict[str, str]:
        return zookeeper_broker_settings(
            nodes[0],
            nodes=nodes,
            zookeeper_port=2181,
            has_listeners=has_listeners,
            data_directory=Path("/data"),
            properties={"num.partitions": "4"},
        )

    old, new = settings(has_listeners=False), settings(has_listeners=True)
    assert (old["host.name"], old["port"], "listeners" in old) == ("127.0.0.1", port, False)
    assert (new["listeners"], "host.name" in new) == (f"PLAINTEXT://127.0.0.1:{port}", False)
    assert old["zookeeper.connect"] == new["zookeeper.connect"] == "127.0.0.1:2181"
    assert old["num.partitions"] == "4"
    assert "process.roles" not in new


def test_zookeeper_listens_on_loopback_only() -> None:
    assert zookeeper_settings(2181, Path("/data"))["clientPortAddress"] == "127.0.0.1"
