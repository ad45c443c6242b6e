"""What is known of a source when a link first runs: all of it is kept, in records that brokers take."""

from __future__ import annotations

import hashlib

from heliograph.controller.at_first import AtFirst
from heliograph.controller.ledger import Ledger
from heliograph.controller.link_ledger import LinkLedger
from heliograph.model.ledger import LEDGER_TOPIC, WHOLE_TOPIC, encode_row

from .memory_logs import MemoryLogs

MOST_BYTES = 1 << 20


async def opened(logs: MemoryLogs) -> LinkLedger:
    ledger = Ledger(logs)
    await ledger.open()
    return LinkLedger(ledger, "orders", "sf-id", lambda _topic: "target id")


def topics(count: int) -> AtFirst:
    names = [hashlib.sha256(b"%d" % n).hexdigest()[:60] for n in range(count)]
    return AtFirst(
        partitions=dict.fromkeys(names, 12),
        ids={name: f"{name[:8]}-0000-0000-0000-{name[8:20]}" for name in names},
    )


async def test_a_link_that_never_ran_knows_nothing() -> None:
    assert (await opened(MemoryLogs())).at_first() is None


async def test_50000_topics_fit_records_that_brokers_take() -> None:
    logs, known = MemoryLogs(), topics(50_000)
    rows = (await opened(logs)).of_link(known)
    sizes = [sum(len(part or b"") for part in encode_row(row)) for row in rows]
    assert max(sizes) < MOST_BYTES / 2
    assert rows[-1].name.partition == WHOLE_TOPIC

    writer = await opened(logs)
    await writer.write(rows[:-1])
    assert (await opened(logs)).at_first() is None  # a run that ends in between begins again
    await writer.write(rows[-1:])
    assert (await opened(logs)).at_first() == known


async def test_a_source_without_topics_is_known_to_have_none() -> None:
    ledger = await opened(MemoryLogs())
    await ledger.write(ledger.of_link(AtFirst(partitions={}, ids={})))
    assert ledger.at_first() == AtFirst(partitions={}, ids={})


async def test_a_link_that_is_called_as_a_topic_is_known_under_any_term_of_the_topic() -> None:
    ledger = await opened(MemoryLogs())
    known = AtFirst(partitions={"t": 1}, ids={})
    await ledger.write(ledger.of_link(known))
    await ledger.take_over(["orders"], 7)
    await ledger.write([ledger.of_topic("orders", "orders", "id")])
    assert ledger.at_first() == known


async def test_a_row_that_cannot_be_read_makes_all_topics_later_ones() -> None:
    logs = MemoryLogs()
    writer = await opened(logs)
    key, _ = encode_row(writer.of_link(topics(1))[-1])
    await (await logs.open(LEDGER_TOPIC)).append([(key, b"\x02{}")])
    ledger = await opened(logs)
    assert ledger.at_first() == AtFirst(partitions={}, ids={})
    assert ledger.recorded.unreadable("orders") is None


def test_a_topic_that_was_created_again_is_a_later_one() -> None:
    known = AtFirst(partitions={"a": 2, "old": 2}, ids={"a": "first"})
    assert known.knew("a", 1, "first")
    assert not known.knew("a", 2, "first")
    assert not known.knew("a", 1, "second")
    assert known.knew("a", 1, "")  # brokers without ids
    assert known.knew("old", 1, "any")
    assert not known.knew("b", 0, "any")
