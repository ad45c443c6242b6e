"""Configs that work and protect too little are told; secrets in them never are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.interface.config.clear_secrets import clear_secrets
from heliograph.interface.config_file import load_settings, read_settings
from heliograph.model.errors import ConfigError
from heliograph.model.events import Event
from heliograph.model.secrets import is_secret

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECRET = "hunter2"
JAAS = f"{PLAIN} username=alice password={SECRET};"
CONFIG = f"""
clusters:
  sf:  {{bootstrap.servers: "a:1", security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.jaas.config: {JAAS}}}
  nyc: {{bootstrap.servers: "b:1"}}
links:
  l: {{source: sf, target: nyc, topics: a}}
"""


def cautions_of(directory: Path, text: str, mode: int) -> list[str]:
    path = directory / "heliograph.yaml"
    path.write_text(text)
    path.chmod(mode)
    settings = read_settings(path, environment={"PASSWORD": SECRET})
    assert all(each.code is Event.INSECURE for each in settings.cautions)
    return [str(each) for each in settings.cautions]


@pytest.mark.parametrize(
    ("mode", "who"), [(0o640, "its group"), (0o604, "everybody"), (0o644, "its group and everybody")]
)
def test_a_config_that_others_can_read_and_that_holds_a_password_is_told(
    tmp_path: Path, mode: int, who: str
) -> None:
    (caution,) = cautions_of(tmp_path, CONFIG, mode)
    path = tmp_path / "heliograph.yaml"
    assert caution == (
        f"{path} can be read by {who}, and holds secrets in the clear: clusters.sf.sasl.jaas.config"
        f" (hint: chmod 600 {path}; or keep them elsewhere, as ${{file:/path:key}} or ${{NAME}})"
    )


def test_a_config_that_nobody_else_can_read_or_without_a_password_is_not(tmp_path: Path) -> None:
    assert cautions_of(tmp_path, CONFIG, 0o600) == []
    quoted = CONFIG.replace(JAAS, f"'{JAAS}'").replace(SECRET, '"${PASSWORD}"')
    assert cautions_of(tmp_path, quoted, 0o644) == []


def test_a_properties_file_that_others_can_read_is_told_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"sasl.jaas.config={JAAS}")
    file.chmod(0o644)
    text = CONFIG.replace(f"sasl.jaas.config: {JAAS}", "properties_file: client.properties")
    (caution,) = cautions_of(tmp_path, text, 0o644)
    assert caution.startswith(
        f"{file} can be read by its group and everybody, and holds secrets in the clear"
    )


@pytest.mark.parametrize(
    ("key", "text", "clear"),
    [
        ("ssl.key.password", SECRET, True),
        ("ssl.key.password", "${PASSWORD}", False),
        ("ssl.key.password", "${file:/x:y}", False),
        ("ssl.key.password", "$${PASSWORD}", True),
        ("ssl.key.password", "a${PASSWORD}", True),
        ("ssl.key.password", "", False),
        ("spark.authenticate.secret", SECRET, True),
        ("spark.token.enabled", "true", False),
        ("sasl.jaas.config", JAAS, True),
        ("sasl.jaas.config", f"{PLAIN} username=a password='${{PASSWORD}}';", False),
        ("sasl.jaas.config", "${JAAS}", False),
        ("sasl.jaas.config", f"{PLAIN} {SECRET}", True),
        ("sasl.jaas.config", "x.Krb5LoginModule required useKeyTab=true keyTab=m;", False),
        ("ssl.keystore.key", "-----BEGIN PRIVATE KEY-----", True),
        ("ssl.keystore.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----", False),
        ("client.id", SECRET, False),
    ],
)
def test_a_secret_is_in_the_clear_unless_it_is_a_reference_or_encrypted(
    key: str, text: str, clear: bool
) -> None:
    assert list(clear_secrets({"clusters": [{key: text}]})) == ([("clusters", 0, key)] if clear else [])


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            "security.protocol: SSL, ssl.endpoint.identification.algorithm: ''",
            "ssl.endpoint.identification.algorithm is empty",
        ),
        (
            f"security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.jaas.config: {JAAS}",
            "sasl.mechanism=PLAIN with security.protocol=SASL_PLAINTEXT sends the password in the clear",
        ),
    ],
)
def test_what_protects_too_little_is_told_once_for_each_cluster(properties: str, words: str) -> None:
    text = f"""
clusters:
  sf:  {{bootstrap.servers: "a:1", {properties}}}
  nyc: {{bootstrap.servers: "b:1"}}
links: {{l: {{source: sf, target: nyc, topics: a}}, m: {{source: sf, target: nyc, topics: b}}}}
"""
    (caution,) = load_settings(text, name="x").cautions
    assert caution.message.startswith(f"cluster 'sf': {words}")
    assert caution.code is Event.INSECURE


@pytest.mark.parametrize(
    "key",
    [
        "ssl.keystore.key",
        "ssl.key.password",
        "SSL.KEYSTORE.PASSWORD",
        "sasl.jaas.config",
        "a.secret",
        "token",
    ],
)
def test_keys_of_secrets_are_known(key: str) -> None:
    assert is_secret(key)
    assert not is_secret("ssl.keystore.location")


BROKEN = [
    f"{{{SECRET}: x}}",
    f"[{SECRET}]",
    f"*{SECRET}",
    f"&{SECRET}",
    f"!{SECRET} x",
    f"!{SECRET}!x y",
    f"'{SECRET}",
    f'"\\{SECRET}"',
    f"@{SECRET}",
    f"%{SECRET}",
    f"{SECRET}: {SECRET}",
    f"${{{SECRET} x}}",
    f"a${{not {SECRET}}}",
    SECRET,
]


@given(
    st.sampled_from(BROKEN),
    st.sampled_from(["sasl.jaas.config", "ssl.keystore.key", "ssl.key.password", "ssl.truststore.password"]),
    st.sampled_from(
        ["clusters: {sf: {%s: %s}}", "clusters:\n  sf:\n    %s: %s\n", "spark: {conf: {x.%s: %s}}"]
    ),
)
def test_no_error_about_a_config_tells_a_secret(value: str, key: str, document: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(document % (key, value), name="heliograph.yaml", environment={})
    assert SECRET not in caught.value.message + caught.value.hint
