"""The files that security properties name, also those inside of `sasl.jaas.config`: all their paths changed at once.

Must not know why they are: relative ones are made absolute when a config is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from heliograph.cluster.security.jaas import JaasProblem, parse_jaas

_LOCATIONS = ("ssl.truststore.location", "ssl.keystore.location")
_JAAS = "sasl.jaas.config"
_PATH_OPTIONS = ("keyTab", "ticketCache")
_FILE = "FILE:"
_OTHER_CACHE = re.compile(r"[A-Za-z]{2,}:")  # KCM: or KEYRING:, which name no file


def with_paths(properties: Mapping[str, str], changed: Callable[[str], str]) -> dict[str, str]:
    """A login module without paths stays as it is written, and so does what is none."""
    paths = {name: changed(text) for name in _LOCATIONS if (text := properties.get(name))}
    jaas = {_JAAS: _with_paths(properties[_JAAS], changed)} if _JAAS in properties else {}
    return {**properties, **paths, **jaas}


def _with_paths(jaas: str, changed: Callable[[str], str]) -> str:
    try:
        module = parse_jaas(jaas)
    except JaasProblem:
        return jaas
    found = {name: module.options[name] for name in _PATH_OPTIONS if module.options.get(name)}
    paths = {name: text.removeprefix(_FILE) for name, text in found.items()}
    new = {name: changed(path) for name, path in paths.items() if not _OTHER_CACHE.match(path)}
    if all(found[name] == path for name, path in new.items()):
        return jaas
    return replace(module, options={**module.options, **new}).revealed()
