"""Scripts of requests by chance: mostly such as nearly fit, so that every row of the broker's rules is met."""

from __future__ import annotations

import random

from .control_batch import EndMarker
from .producer_states import SEQUENCES
from .requests import FLAWS, IDS, AskWithEpoch, DeleteRecords, Fetch, Look, Produce, Step, WriteMarkers

MARKER_IDS = (0x4900000000000001, 0x4900000000000002)
TRANSACTION_IDS = (71, 72, 73)


def random_script(seed: int, length: int = 60) -> list[Step]:
    """Produces, with looks in between."""
    chance = random.Random(seed)
    script: list[Step] = []
    sent: list[Produce] = []
    while len(script) < length:
        kind = chance.random()
        if kind < 0.7:
            script.append(_random_produce(chance, sent))
        elif kind < 0.9:
            script.append(Look())
        elif kind < 0.95:
            script.append(AskWithEpoch(epochs_off=chance.choice((-1, 1))))
        else:
            script.append(Fetch(offset=chance.randrange(20), last_fetched_epoch=chance.choice((-1, 0, 0, 1))))
    return [*script, Look()]


def random_markers(seed: int, length: int = 60) -> list[Step]:
    """Markers of crossing epochs, alone and in bulk, between records of the same and of other producers; and the start
    moves."""
    chance = random.Random(f"{seed} markers")
    script: list[Step] = []
    sequences = dict.fromkeys(MARKER_IDS, 0)
    while len(script) < length:
        kind = chance.random()
        if kind < 0.55:
            count = chance.choice((1, 1, 2, 5))
            markers = tuple(
                EndMarker(chance.choice(MARKER_IDS), chance.randrange(4), chance.randrange(6))
                for _ in range(count)
            )
            script.append(WriteMarkers(markers=markers))
        elif kind < 0.7:
            number = chance.choice(MARKER_IDS)
            sequence = chance.choice((0, sequences[number]))
            sequences[number] = sequence + 1
            script.append(Produce(producer_id=number, epoch=chance.randrange(4), sequence=sequence))
        elif kind < 0.8:
            script.append(DeleteRecords(before_offset=chance.randrange(-2, length)))
        elif kind < 0.9:
            script.append(Look())
        else:
            offset, last_epoch = chance.randrange(length), chance.choice((-1, 0, 1))
            script.append(Fetch(offset=offset, last_fetched_epoch=last_epoch, max_bytes=300))
    return [*script, Look()]


def random_transactions(seed: int, length: int = 90) -> list[Step]:
    """Of several producers, interleaved, and read from every offset in both ways."""
    chance = random.Random(f"{seed} transactions")
    script: list[Step] = []
    sequences = dict.fromkeys((*TRANSACTION_IDS, IDS[0]), 0)
    for _ in range(length):
        kind, number = chance.random(), chance.choice(TRANSACTION_IDS)
        if kind < 0.45:
            count = chance.randint(1, 3)
            script.append(
                Produce(
                    producer_id=number,
                    sequence=sequences[number],
                    count=count,
                    in_transaction=True,
                )
            )
            sequences[number] += count
        elif kind < 0.5:  # of an id whose transaction is open it is refused
            plain = chance.choice((number, IDS[0]))
            script.append(Produce(producer_id=plain, sequence=sequences[plain]))
            sequences[plain] += plain == IDS[0]
        elif kind < 0.7:
            script.append(WriteMarkers(markers=(EndMarker(number, 0, 1, chance.random() < 0.4),)))
        elif kind < 0.8:
            script.append(Look())
        else:
            script.append(_random_fetch(chance, length))
    return [*script, *(_random_fetch(chance, length) for _ in range(20)), Look()]


def _random_fetch(chance: random.Random, end: int) -> Fetch:
    max_bytes = chance.choice((1, 200, 700, 1 << 20))
    return Fetch(offset=chance.randrange(end), committed=chance.random() < 0.8, max_bytes=max_bytes)


def _random_produce(chance: random.Random, sent: list[Produce]) -> Produce:
    if chance.random() < 0.15:
        return Produce(sequence=0, count=chance.randint(1, 3), flaw=chance.choice(sorted(FLAWS)))
    producer_id, count = chance.choice(IDS), chance.randint(1, 3)
    before = [each for each in sent if each.producer_id == producer_id]
    if not before:
        sequence = chance.choice((0, 5, SEQUENCES - 4))
        produce = Produce(producer_id=producer_id, sequence=sequence, count=count)
    elif chance.random() < 0.3:
        return chance.choice(before[-8:])
    else:
        last = before[-1]
        off_by = chance.choice((0, 0, 0, 0, 1, -1))
        epoch = last.epoch + chance.choice((0,) * 12 + (1, -1))
        sequence = (last.sequence + last.count + off_by) % SEQUENCES
        if epoch != last.epoch and chance.random() < 0.6:
            sequence = 0
        produce = Produce(producer_id=producer_id, epoch=max(epoch, 0), sequence=sequence, count=count)
        if off_by or epoch < last.epoch or (epoch > last.epoch and sequence):
            return produce  # refused, so that the next one is built on what was there before
    sent.append(produce)
    return produce
