"""Where the config file is: what the user named, else $HELIOGRAPH_CONFIG, else ./heliograph.yaml."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from heliograph.model.errors import UsageError

VARIABLE = "HELIOGRAPH_CONFIG"
DEFAULT_NAME = "heliograph.yaml"
_HINT = f"`heliograph config example > {DEFAULT_NAME}` writes one to start from"


def find_config(
    positional: Path | None = None,
    option: Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
) -> Path:
    """The config file to read; UsageError with every place looked at if there is none."""
    if positional and option and positional != option:
        raise UsageError(f"two config files: {positional} and {option}", hint="name one of them")
    path, place = _chosen(positional or option, environment)
    if path.is_file():
        return path
    if path.exists():
        raise UsageError(f"{path} is not a file", hint=_HINT)
    raise UsageError(f"no config file: {place}", hint=_HINT)


def _chosen(named: Path | None, environment: Mapping[str, str]) -> tuple[Path, str]:
    if named:
        return named, f"{named} does not exist"
    if environment.get(VARIABLE):
        path = Path(environment[VARIABLE])
        return path, f"{path} (from ${VARIABLE}) does not exist"
    path = Path(DEFAULT_NAME)
    return path, f"no path was given, ${VARIABLE} is not set, and {path.absolute()} does not exist"
