"""numba behind typed decorators: the only place that knows how a kernel is compiled and where its machine code is
kept.

    kernel       called from Python: one signature, compiled when its module is imported, or loaded from the cache
    part         a piece of kernels; LLVM inlines it
    instruction  what Python cannot say: loads, stores, copies, the CPU's CRC

Importing this imports numba, which takes most of a second: `loading.py` does it in a thread. Nothing here checks
bounds. Kernels do, before they load or store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from heliograph.wire.kernels.machine_code import directory, shipped

Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Table = npt.NDArray[np.int64]  # two dimensions

I64 = types.int64
READ = types.Array(types.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
WRITE = types.Array(types.uint8, 1, "C")
NUMBERS = types.Array(types.int64, 1, "C")
TABLE = types.Array(types.int64, 2, "C")

_F = TypeVar("_F", bound=Callable[..., Any])


def kernel(signature: Any) -> Callable[[_F], _F]:
    """numba compiles it for this signature now. Where the cache cannot be used it is compiled in memory."""

    def compiled(function: _F) -> _F:
        if numba.config.DISABLE_JIT:
            raise RuntimeError("numba is told not to compile (NUMBA_DISABLE_JIT)")
        place = "" if shipped() else directory()  # "": beside the source
        if place is not None:
            # OSError: the disk is full. RuntimeError: numba finds no place by this directory.
            with contextlib.suppress(OSError, RuntimeError):
                return _cached(function, signature, place)
        return cast(_F, numba.njit(signature)(function))

    return compiled


def _cached(function: _F, signature: Any, place: str) -> _F:
    before = numba.config.CACHE_DIR
    # Looked at while the function is decorated, and by nobody else: other users of numba keep their own.
    numba.config.CACHE_DIR = place
    try:
        return cast(_F, numba.njit(signature, cache=True)(function))
    finally:
        numba.config.CACHE_DIR = before


def part(function: _F) -> _F:
    return cast(_F, numba.njit(function))


def instruction(build: Callable[..., Any]) -> Callable[..., Any]:
    """`build(typing_context, *types)` returns a signature and the code generator."""
    return cast(Callable[..., Any], intrinsic(build))
