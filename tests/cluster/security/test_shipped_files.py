"""Files of a config on an executor: where the config says, or where Spark has put what it ships."""

from __future__ import annotations

from pathlib import Path

from heliograph.cluster.security.shipped_files import with_shipped_files


def test_a_shipped_file_stands_for_one_that_is_not_here_and_only_then(tmp_path: Path) -> None:
    own, shipped = tmp_path / "own", tmp_path / "shipped"
    for directory in (own, shipped):
        directory.mkdir()
    (own / "trust.jks").write_text("here")
    for name in ("trust.jks", "client.p12", "mirror.keytab"):
        (shipped / name).write_text("shipped")
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
    given = {
        "bootstrap.servers": "a:1",
        "ssl.truststore.location": str(own / "trust.jks"),
        "ssl.keystore.location": "/etc/mirror/client.p12",
        "sasl.jaas.config": f'{module} keyTab="/etc/mirror/mirror.keytab" principal="m@A";',
    }
    found = with_shipped_files(given, shipped)
    assert found["ssl.truststore.location"] == given["ssl.truststore.location"]
    assert found["ssl.keystore.location"] == str(shipped / "client.p12")
    assert str(shipped / "mirror.keytab") in found["sasl.jaas.config"]
    assert found["bootstrap.servers"] == "a:1"


def test_a_file_that_is_nowhere_keeps_the_path_that_the_config_has(tmp_path: Path) -> None:
    given = {"ssl.keystore.location": "/etc/mirror/client.p12"}
    assert with_shipped_files(given, tmp_path) == given
