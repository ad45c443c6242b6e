"""CRC32C as kernels compute it, by the CPU's instruction and by tables, against the library's."""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
import pytest
from crc32c import crc32c as judge
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import ir


@pytest.fixture(scope="session")
def by_instruction() -> Any:
    import numba

    from heliograph.wire.kernels.checksum import crc32c

    return numba.njit(lambda data: crc32c(data, 0, len(data)))


@pytest.fixture(scope="session")
def word_by_table() -> Any:
    from heliograph.wire.kernels.checksum import word_by_table

    return word_by_table


@given(data=st.binary(max_size=100))
def test_kernels_compute_the_librarys_checksum(by_instruction: Any, data: bytes) -> None:
    assert by_instruction(np.frombuffer(data, np.uint8)) == judge(data)


@given(before=st.integers(0, 2**32 - 1), word=st.binary(min_size=8, max_size=8))
def test_tables_compute_the_librarys_checksum(word_by_table: Any, before: int, word: bytes) -> None:
    found = word_by_table(np.uint64(before ^ 0xFFFFFFFF), np.uint64(int.from_bytes(word, "little")))
    assert int(found) ^ 0xFFFFFFFF == judge(word, before)


@pytest.mark.parametrize(
    ("triple", "cpu", "instruction", "arguments", "mnemonic"),
    [
        ("x86_64-unknown-linux-gnu", "x86-64-v2", "llvm.x86.sse42.crc32.64.64", (64, 64, 64), "crc32q"),
        ("aarch64-unknown-linux-gnu", "neoverse-n1", "llvm.aarch64.crc32cx", (32, 32, 64), "crc32cx"),
    ],
)
def test_llvm_knows_the_instructions_that_we_name(
    triple: str, cpu: str, instruction: str, arguments: tuple[int, ...], mnemonic: str
) -> None:
    llvmlite.binding.initialize_all_targets()
    llvmlite.binding.initialize_all_asmprinters()
    module = ir.Module()
    module.triple = triple
    result, *operands = (ir.IntType(bits) for bits in arguments)
    kind = ir.FunctionType(result, operands)
    outer = ir.Function(module, kind, "outer")
    builder = ir.IRBuilder(outer.append_basic_block())
    builder.ret(builder.call(ir.Function(module, kind, instruction), outer.args))
    try:
        target = llvmlite.binding.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip(f"this LLVM has no {triple}")
    machine = target.create_target_machine(cpu=cpu)
    assert mnemonic in machine.emit_assembly(llvmlite.binding.parse_assembly(str(module)))
