"""Paths in security properties are changed wherever they stand, and nothing else is."""

from __future__ import annotations

import pytest

from heliograph.cluster.security.file_paths import with_paths
from heliograph.cluster.security.jaas import parse_jaas

KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


def moved(path: str) -> str:
    return f"/etc/{path}"


def test_stores_are_moved() -> None:
    properties = {
        "ssl.truststore.location": "t.p12",
        "ssl.keystore.location": "k.p12",
        "ssl.keystore.password": "p",
    }
    assert with_paths(properties, moved) == {
        "ssl.truststore.location": "/etc/t.p12",
        "ssl.keystore.location": "/etc/k.p12",
        "ssl.keystore.password": "p",
    }
    assert with_paths({"ssl.truststore.location": ""}, moved) == {"ssl.truststore.location": ""}


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ('keyTab="m.keytab"', {"keyTab": "/etc/m.keytab"}),
        ('keyTab="FILE:m.keytab"', {"keyTab": "/etc/m.keytab"}),
        ('ticketCache="cc"', {"ticketCache": "/etc/cc"}),
        ('ticketCache="KCM:1000"', {"ticketCache": "KCM:1000"}),
    ],
)
def test_files_of_kerberos_are_moved_inside_of_their_login_module(
    options: str, changed: dict[str, str]
) -> None:
    jaas = with_paths({"sasl.jaas.config": f"{KRB5} principal='m' {options};"}, moved)["sasl.jaas.config"]
    assert parse_jaas(jaas).options == {"principal": "m"} | changed


@pytest.mark.parametrize(
    "jaas",
    [
        "a.PlainLoginModule   required username='x' password='y' ;",
        "no login module",
        f"{KRB5} keyTab='/abs';",
    ],
)
def test_what_has_no_path_to_change_stays_as_it_is_written(jaas: str) -> None:
    unchanged = with_paths({"sasl.jaas.config": jaas}, lambda path: path)
    assert unchanged == {"sasl.jaas.config": jaas}
