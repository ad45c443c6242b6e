"""CRC32C inside kernels, by the CPU's instruction where it has one and by tables where not; and CRC-32, which the
message formats before Kafka 0.11 have, by a table.

The instruction is used only where LLVM compiles for this very CPU: asked for one that it lacks, LLVM would end the
process. The tables are read for the last bytes in any case.
"""

from __future__ import annotations

import platform
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from heliograph.wire.kernels.compiler import Octets, instruction, part
from heliograph.wire.kernels.memory import load8, load64_as_it_is

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected
_CRC32_POLYNOMIAL = 0xEDB88320  # that of zlib and Java
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _table(polynomial: int) -> Octets:
    """What a byte does to the checksum."""
    table = np.zeros(256, np.uint64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        table[byte] = value
    return table  # type: ignore[return-value]


def _tables() -> Octets:
    """Eight tables: what a byte does to the checksum with 0 to 7 bytes behind it."""
    table = np.zeros((8, 256), np.uint64)
    table[0] = _table(_POLYNOMIAL)
    for nth in range(1, 8):
        before = table[nth - 1]
        table[nth] = before >> np.uint64(8) ^ table[0][before & np.uint64(0xFF)]
    return table.ravel()  # type: ignore[return-value]


_TABLES = _tables()
_CRC32_TABLE = _table(_CRC32_POLYNOMIAL)
_LOW = np.uint64(0xFF)


@part
def word_by_table(crc: Any, word: Any) -> Any:
    """The checksum of 8 bytes more."""
    mixed = word ^ crc
    return (
        _TABLES[np.uint64(1792) + (mixed & _LOW)]
        ^ _TABLES[np.uint64(1536) + (mixed >> np.uint64(8) & _LOW)]
        ^ _TABLES[np.uint64(1280) + (mixed >> np.uint64(16) & _LOW)]
        ^ _TABLES[np.uint64(1024) + (mixed >> np.uint64(24) & _LOW)]
        ^ _TABLES[np.uint64(768) + (mixed >> np.uint64(32) & _LOW)]
        ^ _TABLES[np.uint64(512) + (mixed >> np.uint64(40) & _LOW)]
        ^ _TABLES[np.uint64(256) + (mixed >> np.uint64(48) & _LOW)]
        ^ _TABLES[mixed >> np.uint64(56)]
    )


@instruction
def word_by_x86(_context: Any, crc: Any, word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I64, _I64])
        step = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse42.crc32.64.64")
        return builder.call(step, args)

    return types.uint64(crc, word), generate


@instruction
def word_by_arm(_context: Any, crc: Any, word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I32, _I64])
        step = cgutils.get_or_insert_function(builder.module, kind, "llvm.aarch64.crc32cx")
        return builder.zext(builder.call(step, [builder.trunc(args[0], _I32), args[1]]), _I64)

    return types.uint64(crc, word), generate


def _word_step() -> Any:
    if numba.config.CPU_NAME or numba.config.CPU_FEATURES is not None:
        return word_by_table  # LLVM compiles for another CPU than this one
    features = llvmlite.binding.get_host_cpu_features()
    if platform.machine() in ("x86_64", "AMD64") and features.get("sse4.2"):
        return word_by_x86
    if platform.machine() in ("aarch64", "arm64") and features.get("crc"):
        return word_by_arm
    return word_by_table


word_step = _word_step()


@part
def crc32c(data: Octets, start: int, end: int) -> int:
    """Of data[start:end], which the caller knows to be inside."""
    crc = np.uint64(0xFFFFFFFF)
    at = start
    while at + 8 <= end:
        crc = word_step(crc, load64_as_it_is(data, at))
        at += 8
    while at < end:
        crc = crc >> np.uint64(8) ^ _TABLES[(crc ^ np.uint64(load8(data, at))) & _LOW]
        at += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))  # type: ignore[return-value]


@part
def crc32(data: Octets, start: int, end: int) -> int:
    """Of data[start:end], which the caller knows to be inside."""
    crc = np.uint64(0xFFFFFFFF)
    for at in range(start, end):
        crc = crc >> np.uint64(8) ^ _CRC32_TABLE[(crc ^ np.uint64(load8(data, at))) & _LOW]
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))  # type: ignore[return-value]
