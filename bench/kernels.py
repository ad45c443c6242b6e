"""How fast kernels are on one core: `python -m bench.kernels`.

Answers of single-record batches of about 270 bytes are taken apart, verified and merged, as a lane does it. The best of
several rounds counts: what else runs on the machine only makes it slower.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

from bench.single_batch import single_batch
from bench.values import orders
from heliograph.wire.batch import BatchHeader, Codec, read_header, rewrite, split_batches, verify_crc
from heliograph.wire.compare import first_difference
from heliograph.wire.compare_dense import dense_difference
from heliograph.wire.decode import decode
from heliograph.wire.dense import Dense, dense_batch
from heliograph.wire.filler import MOST_RECORDS, filler_batch, is_filler, last_filler_offset
from heliograph.wire.kernels.loading import Kernels, wait
from heliograph.wire.merge import Merged, merge
from heliograph.wire.runs import Run, split_runs

ROUNDS = 7
ANSWER_BATCHES = 4_000  # about 1 MB
BATCHES_OF_A_SIZE = 64
ONE_IN = 100  # offsets of a compacted log that hold a record
SIZES = ((1, 2, 4, 8, 16, 21), (1, 4, 21, 42, 84, 168))  # compressed, and not
LIMIT_BYTES = 1_000_000
TIMESTAMP_MS = 1_700_000_000_000


def answer(batches: int, codec: Codec = Codec.NONE) -> memoryview:
    chance = random.Random(1)
    singles = (
        single_batch(chance.randbytes(200), timestamp_ms=TIMESTAMP_MS + n, offset=n, codec=codec)
        for n in range(batches)
    )
    return memoryview(bytearray(b"".join(singles)))


def best(work: Callable[[], object]) -> float:
    """Seconds."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def merge_first(kernels: Kernels, runs: list[Run]) -> Merged:
    """As many as fit."""
    merged = merge(
        kernels,
        runs,
        limit_bytes=LIMIT_BYTES,
        max_records=2**31 - 1,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    assert merged is not None
    return merged


def merge_all(kernels: Kernels, runs: list[Run]) -> int:
    made = 0
    while runs:
        merged = merge_first(kernels, runs)
        runs = ([merged.rest] if merged.rest else []) + runs[merged.runs + bool(merged.rest) :]
        made += 1
    return made


def pass_all(records: memoryview) -> None:
    """Each batch is read, verified and rewritten in Python."""
    for header, view in split_batches(records):
        verify_crc(header, view)
        rewrite(view, producer_id=7, producer_epoch=0, base_sequence=0)


def main() -> None:
    begun = time.perf_counter()
    kernels = wait()
    print(f"loaded in {time.perf_counter() - begun:.2f} s")
    records = answer(ANSWER_BATCHES)
    print(f"{ANSWER_BATCHES} batches of {len(records) // ANSWER_BATCHES} bytes, millions a second:")

    def rate(name: str, work: Callable[[], object], batches: int = ANSWER_BATCHES) -> None:
        print(f"  {name:<34} {batches / best(work) / 1e6:7.2f}")

    runs = list(split_runs(records))
    rate("scan and verify", lambda: list(split_runs(records)))
    rate("merge", lambda: merge_all(kernels, runs))
    rate("scan, verify and merge", lambda: merge_all(kernels, list(split_runs(records))))
    rate(
        "compare with itself",
        lambda: first_difference(kernels, [records], [records], first_offset=0, next_offset=ANSWER_BATCHES),
    )
    merged = merge_first(kernels, runs)
    rate("decode the merged batch", lambda: decode(kernels, merged.batch), merged.records)
    rate("pass through in Python", lambda: pass_all(memoryview(bytearray(records))))
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        packed = list(split_runs(answer(ANSWER_BATCHES, codec)))
        rate(f"merge {codec.name.lower()}", lambda packed=packed: merge_all(kernels, packed))  # type: ignore[misc]
    print_filler()
    print_dense(kernels)
    print_merge_costs(kernels)
    print_longest(kernels)
    print("microseconds to take an answer apart, by kernel and in Python:")
    for few in (1, 2, 3, 4, 6, 10, 100):
        print(f"  {few:>4} batches {apart_us(few, split_runs):8.2f} {apart_us(few, split_batches):8.2f}")


def print_filler() -> None:
    """What wire/filler.py says of itself."""
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "timestamp_ms": TIMESTAMP_MS}
    batch = memoryview(filler_batch(MOST_RECORDS, **producer))
    header = read_header(batch)
    print(
        f"batches of {MOST_RECORDS:,} fillers, {len(batch) / MOST_RECORDS:.2f} bytes each, millions a second:"
    )
    made_s, known_s = (
        best(lambda: filler_batch(MOST_RECORDS, **producer)),
        best(lambda: is_filler(header, batch)),
    )
    print(f"  {'make one':<34} {MOST_RECORDS / made_s / 1e6:7,.0f}")
    print(f"  {'know one again':<34} {MOST_RECORDS / known_s / 1e6:7,.0f}")


def print_dense(kernels: Kernels) -> None:
    """What wire/dense.py says of itself."""
    print(
        f"dense batches of {MOST_RECORDS:,} offsets, one in {ONE_IN} with a record of 200 bytes of JSON:"
        " bytes an offset; millions a second to make, to compare, to find the last filler; milliseconds to make:"
    )
    for codec in Codec:
        source = sparse_source(codec)
        dense = densify(kernels, source, codec)
        made_s, compared_s, found_s = (
            best(lambda source=source, codec=codec: densify(kernels, source, codec)),  # type: ignore[misc]
            best(lambda source=source, dense=dense: compare(kernels, source, dense)),  # type: ignore[misc]
            best(lambda dense=dense: find_filler(kernels, dense)),  # type: ignore[misc]
        )
        rates = "".join(f"{dense.next_offset / cost / 1e6:8.1f}" for cost in (made_s, compared_s, found_s))
        size = len(dense.batch) / dense.next_offset
        print(f"  {codec.name.lower():<7}{size:8.2f}{rates}{made_s * 1e3:8.1f}")


def densify(kernels: Kernels, source: list[tuple[BatchHeader, memoryview]], codec: Codec) -> Dense:
    dense = dense_batch(
        kernels,
        source,
        first_offset=0,
        next_offset=MOST_RECORDS,
        filler_time_ms=TIMESTAMP_MS + 10**9,
        codec=codec,
        limit_bytes=LIMIT_BYTES,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    assert isinstance(dense, Dense)
    return dense


def compare(kernels: Kernels, source: list[tuple[BatchHeader, memoryview]], dense: Dense) -> None:
    differs = dense_difference(kernels, dense.batch, source, first_offset=0, next_offset=dense.next_offset)
    assert differs is None


def find_filler(kernels: Kernels, dense: Dense) -> None:
    assert last_filler_offset(kernels, read_header(dense.batch), dense.batch) == dense.next_offset - 1


def sparse_source(codec: Codec) -> list[tuple[BatchHeader, memoryview]]:
    """Each record in a batch of its own: what takes longest to read."""
    value = orders()
    batches = [
        memoryview(
            bytearray(single_batch(value(n)[:200], timestamp_ms=TIMESTAMP_MS + n, offset=n, codec=codec))
        )
        for n in range(0, MOST_RECORDS, ONE_IN)
    ]
    return [(read_header(batch), batch) for batch in batches]


def print_longest(kernels: Kernels) -> None:
    """What `MOST_BATCHES` and `INFLATED_BYTES` of wire/merge_compressed.py go by."""
    print(
        "milliseconds for the largest merged batch, of batches of one record of 200 bytes, and of 15 KB of JSON:"
    )
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        costs = []
        for records in (answer(ANSWER_BATCHES, codec), batches_of(21, codec, ANSWER_BATCHES // 10)):
            runs = list(split_runs(records))
            costs.append(best(lambda runs=runs: merge_first(kernels, runs)) * 1e3)  # type: ignore[misc]
        print(f"  {codec.name.lower():<7}" + "".join(f"{cost:8.1f}" for cost in costs))


def print_merge_costs(kernels: Kernels) -> None:
    """What `WORTH_BYTES` of copier/merging_rule.py goes by."""
    print("microseconds to merge a batch of JSON, by its size in bytes as it came:")
    for codec in Codec:
        costs = []
        for records in SIZES[codec is Codec.NONE]:
            runs = list(split_runs(batches_of(records, codec)))
            us = best(lambda runs=runs: merge_all(kernels, runs)) * 1e6 / BATCHES_OF_A_SIZE  # type: ignore[misc]
            costs.append(f"{len(runs[0].view) // runs[0].batches:>8,}: {us:>7,.1f}")
        print(f"  {codec.name.lower():<7}" + "".join(costs))


def batches_of(records: int, codec: Codec, batches: int = BATCHES_OF_A_SIZE) -> memoryview:
    """One value as long as that many records: to merge is to copy and compress bytes, whatever they are."""
    value = orders()
    return memoryview(
        bytearray(
            b"".join(
                single_batch(
                    b"".join(value(n * records + r) for r in range(records)),
                    timestamp_ms=TIMESTAMP_MS + n,
                    offset=n,
                    codec=codec,
                )
                for n in range(batches)
            )
        )
    )


def apart_us(batches: int, apart: Callable[[memoryview], Iterable[object]]) -> float:
    records = answer(batches)
    return best(lambda: [list(apart(records)) for _ in range(1000)]) * 1e3


if __name__ == "__main__":
    main()
