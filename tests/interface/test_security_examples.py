"""`heliograph config example --for NAME`: each is valid as it is printed, and holds no secret."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from heliograph.cluster.properties import parse_properties
from heliograph.cluster.security.settings import SaslMechanism, SecurityProtocol
from heliograph.interface.cli import main as cli
from heliograph.interface.config.security_examples import SECURITY_EXAMPLES, SecuredBy
from heliograph.interface.config_file import read_settings

DIRECTORY = "/etc/heliograph"
SECRETS = f"{DIRECTORY}/secrets.properties"
REFERENCE = re.compile(r"\$\{(.*?)\}")
EXPECTED: dict[SecuredBy, set[tuple[str, str | None]]] = {
    SecuredBy.TLS: {("SSL", None)},
    SecuredBy.MTLS: {("SSL", None)},
    SecuredBy.SCRAM: {("SASL_SSL", "SCRAM-SHA-512"), ("SASL_SSL", "PLAIN")},
    SecuredBy.KERBEROS: {("SASL_SSL", "GSSAPI"), ("SSL", None)},
    SecuredBy.TWO_REALMS: {("SASL_SSL", "GSSAPI"), ("SASL_PLAINTEXT", "GSSAPI")},
}


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture(params=SecuredBy)
def name(request: pytest.FixtureRequest) -> SecuredBy:
    found: SecuredBy = request.param
    return found


@pytest.fixture
def config(name: SecuredBy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """As it is printed, but for the directory, where the secrets are that it refers to."""
    assert run("config", "example", "--for", name) == 0
    printed = capsys.readouterr().out
    assert printed == SECURITY_EXAMPLES[name]
    keys = [reference.removeprefix(f"file:{SECRETS}:") for reference in REFERENCE.findall(printed)]
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("".join(f"{key}=of {key}\n" for key in keys))
    secrets.chmod(0o600)
    path = tmp_path / "heliograph.yaml"
    path.write_text(printed.replace(DIRECTORY, str(tmp_path)))
    return path


def test_an_example_is_valid_as_it_is_printed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "validate", str(config)) == 0
    printed = capsys.readouterr()
    assert "is valid: clusters sf, nyc; links sf-to-nyc" in printed.out
    assert printed.err == ""  # no warning, either


def test_an_example_secures_both_clusters_as_its_name_says(name: SecuredBy, config: Path) -> None:
    clusters = read_settings(config).clusters.values()
    found = [parse_properties(properties).security for properties in clusters]
    ways = {(each.protocol, each.sasl.mechanism if each.sasl else None) for each in found}
    assert ways == {
        (SecurityProtocol(protocol), SaslMechanism(mechanism) if mechanism else None)
        for protocol, mechanism in EXPECTED[name]
    }
    assert all(each.tls.identity for each in found if each.tls) == (name is SecuredBy.MTLS)


def test_no_password_is_in_the_clear(name: SecuredBy) -> None:
    values = re.findall(r"password[=:] ?\"(.*?)\"", SECURITY_EXAMPLES[name])
    assert all(re.fullmatch(rf"\$\{{file:{SECRETS}:[a-z.]+\}}", value) for value in values)
    assert len(values) == SECURITY_EXAMPLES[name].count("password=") + SECURITY_EXAMPLES[name].count(
        "password:"
    )


def test_an_unknown_name_lists_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run("config", "example", "--for", "magic") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert all(f"'{each}'" in printed.err for each in SecuredBy)
