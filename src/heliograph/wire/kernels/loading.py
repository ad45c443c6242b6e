"""Kernels are loaded in a thread: importing numba takes most of a second, and compiling what is in no cache some more.

Owns that thread. Nobody who passes batches through waits for it (`loaded` says None until it is done).
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from heliograph.model.errors import HeliographError
from heliograph.wire.kernels import machine_code

_PACKAGE = "heliograph.wire.kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    scan: Callable[..., tuple[int, int]]
    join: Callable[..., bool]
    match: Callable[..., tuple[int, int]]
    split: Callable[..., int]
    carve: Callable[..., int]
    gather: Callable[..., int]
    convert: Callable[..., int]
    densify: Callable[..., int]
    find_fillers: Callable[..., tuple[int, int]]
    match_dense: Callable[..., tuple[int, int]]


_MODULES = {
    "scan": "scanning",
    "join": "joining",
    "match": "matching",
    "split": "splitting",
    "carve": "carving",
    "gather": "converting",
    "convert": "converting",
    "densify": "densifying",
    "find_fillers": "fillers",
    "match_dense": "dense_matching",
}


class _Loading:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._leave = threading.Event()
        self.kernels: Kernels | None = None
        self.failure: Exception | None = None

    def start(self) -> threading.Thread:
        with self._lock:
            if self._thread is None:
                # A process must not end while LLVM compiles in it: no other kernel is begun, and one is waited for.
                atexit.register(self._end)
                self._thread = threading.Thread(target=self._load, name="kernels", daemon=True)
                self._thread.start()
            return self._thread

    def _load(self) -> None:
        found: dict[str, Any] = {}
        try:
            if sys.byteorder != "little":
                raise NotImplementedError("kernels are written for little-endian machines")
            for name, module in _MODULES.items():
                if self._leave.is_set():
                    return
                found[name] = getattr(import_module(f"{_PACKAGE}.{module}"), name)
            kernels = Kernels(**found)
            import_module(f"{_PACKAGE}.proof").prove(kernels)
            self.kernels = kernels
            machine_code.note_filled()
        except Exception as failure:  # noqa: BLE001 (whatever it is, batches go on as they are)
            self.failure = failure

    def _end(self) -> None:
        self._leave.set()
        if self._thread is not None:
            self._thread.join()


_loading = _Loading()


def start() -> None:
    """Begins to load, once; returns at once."""
    _loading.start()


def ready() -> bool:
    return _loading.kernels is not None


def loaded() -> Kernels | None:
    return _loading.kernels


def failure() -> Exception | None:
    """Why they cannot be loaded here, if so. Then batches go as they are for ever."""
    return _loading.failure


def kept_at() -> Path | None:
    """Where the machine code of those that are loaded is kept, if it could be."""
    if _loading.kernels is None:
        return None
    compiled: Any = _loading.kernels.scan
    place = compiled.stats.cache_path
    return None if place is None else Path(place)


def wait(timeout_s: float | None = None) -> Kernels:
    """Starts loading if nobody has, and waits: for who cannot do without. Blocks; never on an event loop."""
    _loading.start().join(timeout_s)
    if _loading.kernels is None:
        raise HeliographError(
            f"the compiled kernels cannot be used: {_loading.failure or 'they are not loaded yet'}",
            hint="python -m heliograph.wire.kernels",
        ) from _loading.failure
    return _loading.kernels
