"""Passwords that stand in a config file as they are, and whether others than its owner can read it.

A reference (`${ENV}`, `${file:/path:key}`) is no password in the clear, nor is a private key that is encrypted. Owns no
value: it answers with places and words.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

from heliograph.cluster.security.jaas import JaasProblem, parse_jaas
from heliograph.interface.config.problems import Place, written
from heliograph.interface.config.references import without_references
from heliograph.model.events import Event
from heliograph.model.secrets import is_secret
from heliograph.model.settings import Caution

_FLAGS = ("true", "false", "")  # of keys such as `token.enabled`
_ENCRYPTED_KEY = "BEGIN ENCRYPTED PRIVATE KEY"


def clear_secrets(tree: Any, place: Place = ()) -> Iterator[Place]:
    """In a tree as it is written, references and all."""
    children: Mapping[Any, Any] = {}
    if isinstance(tree, dict):
        children = tree
    elif isinstance(tree, list):
        children = dict(enumerate(tree))
    elif isinstance(tree, str) and place and _is_clear(str(place[-1]), tree):
        yield place
    for key, value in children.items():
        yield from clear_secrets(value, (*place, key))


def cautions_about(path: Path, places: list[Place]) -> list[Caution]:
    """None if nothing in the file is secret, or nobody but its owner can read it."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return []  # it was there a moment ago; what it said is in use
    readers = [who for who, bit in (("its group", stat.S_IRGRP), ("everybody", stat.S_IROTH)) if mode & bit]
    if not places or not readers:
        return []
    shown = ", ".join(map(written, places))
    message = f"{path} can be read by {' and '.join(readers)}, and holds secrets in the clear: {shown}"
    hint = f"chmod 600 {quote(str(path))}; or keep them elsewhere, as ${{file:/path:key}} or ${{NAME}}"
    return [Caution(code=Event.INSECURE, message=message, hint=hint)]


def _is_clear(key: str, text: str) -> bool:
    if not is_secret(key) or _ENCRYPTED_KEY in text:
        return False
    texts = [text]
    if "jaas" in key.lower():
        with suppress(JaasProblem):  # the whole of it may be a reference
            texts = [value for option, value in parse_jaas(text).options.items() if is_secret(option)]
    return any(without_references(each).strip().lower() not in _FLAGS for each in texts)
