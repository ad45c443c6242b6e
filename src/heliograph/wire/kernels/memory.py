"""Loads, stores and copies at any byte of an array: what the CPU does in one instruction each.

Unchecked: whoever calls them has made sure that all bytes are inside the array. Kafka's numbers are big-endian.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array

from heliograph.wire.kernels.compiler import instruction

_I8 = ir.IntType(8)
_I64 = ir.IntType(64)


def _address(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _I8.as_pointer()), [at])


def _load(context: Any, builder: Any, signature: Any, args: Any, bits: int) -> Any:
    address = _address(context, builder, signature.args[0], args[0], args[1])
    return builder.load(builder.bitcast(address, ir.IntType(bits).as_pointer()), align=1)


@instruction
def load64(_context: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bswap(_load(context, builder, signature, args, 64))

    return types.int64(array, at), generate


@instruction
def load32(_context: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sext(builder.bswap(_load(context, builder, signature, args, 32)), _I64)

    return types.int64(array, at), generate


@instruction
def load16(_context: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sext(builder.bswap(_load(context, builder, signature, args, 16)), _I64)

    return types.int64(array, at), generate


@instruction
def load8(_context: Any, array: Any, at: Any) -> Any:
    """Unsigned."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(_load(context, builder, signature, args, 8), _I64)

    return types.int64(array, at), generate


@instruction
def load64_as_it_is(_context: Any, array: Any, at: Any) -> Any:
    """Little-endian and unsigned: for checksums."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _load(context, builder, signature, args, 64)

    return types.uint64(array, at), generate


@instruction
def store8(_context: Any, array: Any, at: Any, value: Any) -> Any:
    """The lowest 8 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        builder.store(builder.trunc(args[2], _I8), address)
        return context.get_dummy_value()

    return types.void(array, at, value), generate


@instruction
def copy(_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = _address(context, builder, signature.args[0], args[0], args[1])
        of = _address(context, builder, signature.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, to, of, args[4], 1, align=1)
        return context.get_dummy_value()

    return types.void(target, target_at, source, source_at, size), generate
