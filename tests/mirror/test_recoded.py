"""What cannot go as it is goes in another form, on real brokers: every record at its offset, judged by an independent
consumer (P2, P4, P5). Each is mirrored in two runs, the second of which begins behind, or inside of, what the first
has made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from heliograph.copier.partition_copy import PartitionCopy
from heliograph.lab.cluster import LabCluster
from heliograph.model.events import Event, Trouble
from heliograph.model.policy import LinkPolicy, OnLoss, Oversize, Timestamps
from heliograph.model.states import StopReason
from tests.support.judge import assert_identical
from tests.support.log_reader import SeenRecord, read_topic
from tests.support.plain_mirror import mirror_plainly, settings_for
from tests.support.records import Record, mixed_records
from tests.support.topics import create_topic, delete_records
from tests.support.workload import ConfirmedProducer, produce_records
from tests.support.written_log import write_log
from tests.wire.batches import make_batch
from tests.wire.message_sets import (
    LEGACY_GZIP,
    LEGACY_LZ4,
    LEGACY_SNAPPY,
    Message,
    encode_message,
    encode_set,
    encode_wrapper,
)

pytestmark = pytest.mark.kafka

NOW_MS = int(time.time() * 1000)
DAY_MS = 86_400_000
HOLES, OLD_0, OLD_1 = "with-holes", "format-0", "format-1"
LINGER_MS = 200  # long enough that records of one call are in one batch


def _holed(at: int, deltas: list[int], last_delta: int, timestamp: int = NOW_MS) -> bytes:
    records = [(b"k%d" % (at + delta), b"v%d" % (at + delta), [("h", b"x")]) for delta in deltas]
    return bytes(
        make_batch(
            records, base_offset=at, offset_deltas=deltas, last_offset_delta=last_delta, timestamp=timestamp
        )
    )


def _compacted() -> bytes:
    """Batches with holes at all ends, one without records, holes between batches, and plain ones."""
    log = _holed(3, [1, 2, 5, 9], 11) + _holed(20, [*range(30)], 29) + _holed(55, [], 4)
    return log + _holed(60, [0, 2, 4, 6], 6) + _holed(90, [0], 0)


def _of_format(magic: int) -> bytes:
    """Messages as they are, one by one, and in wrappers of each codec; one with log append time, and one with holes."""
    log, at = b"", 0
    for codec in (0, LEGACY_GZIP, LEGACY_SNAPPY, LEGACY_LZ4):
        messages: list[Message] = [(b"k%d" % n, b"v%d" % n * 10, NOW_MS + n) for n in range(20)]
        if codec:
            log += encode_wrapper(messages, offsets=range(at, at + 20), magic=magic, codec=codec)
        else:
            log += encode_set(messages, offsets=range(at, at + 20), magic=magic)
        at += 20
    holed: list[Message] = [(b"h", b"%d" % n, NOW_MS) for n in range(5)]
    log += encode_wrapper(holed, offsets=range(at, at + 10, 2), magic=magic, codec=LEGACY_GZIP)
    at += 9
    if magic == 1:
        stamped: list[Message] = [(None, b"stamped", NOW_MS - 5)] * 3
        log += encode_wrapper(
            stamped, offsets=range(at, at + 3), magic=1, codec=LEGACY_GZIP, append_time=NOW_MS + 7
        )
        at += 3
    return log + encode_message((b"last", None, NOW_MS), offset=at, magic=magic)


@pytest.fixture(scope="module")
def old_source() -> Iterator[LabCluster]:
    """A cluster that holds what only a cleaner, or an older version, writes."""
    with LabCluster.start(name="written") as cluster:
        for topic in (HOLES, OLD_0, OLD_1):
            create_topic(cluster.bootstrap_servers, topic, configs={"retention.ms": "-1"})
        (broker,) = cluster.brokers
        broker.stop()
        write_log(broker.directory, HOLES, _compacted())
        write_log(broker.directory, OLD_0, _of_format(0))
        write_log(broker.directory, OLD_1, _of_format(1))
        broker.start()
        yield cluster


class Scene:
    def __init__(self, source: LabCluster, target: LabCluster, topic: str) -> None:
        self.source, self.target, self.topic = source.bootstrap_servers, target.bootstrap_servers, topic
        self.heard: list[Trouble] = []

    def write(self, records: list[Record], codec: str = "none") -> None:
        """As one batch, if it may be so large."""
        producer = ConfirmedProducer(self.source, codec=codec, **{"linger.ms": LINGER_MS})
        for record in records:
            producer.send(self.topic, 0, record)
        producer.confirm()

    def mirror(self, **policy: object) -> PartitionCopy:
        link = {"policy": LinkPolicy(**policy)}  # type: ignore[arg-type]
        _, copies = mirror_plainly(
            settings_for(self.source, self.target, [self.topic], **link), heard=self.heard
        )
        (copy,) = copies.values()
        self.heard += copy.take_notices()
        return copy

    def read(self, bootstrap: str) -> list[SeenRecord]:
        return read_topic(bootstrap, self.topic)[0]

    def both(self) -> tuple[list[SeenRecord], list[SeenRecord]]:
        """What consumers read of source and target, whatever kind of time it is."""
        source, target = (
            [each._replace(timestamp_type="") for each in self.read(bootstrap)]
            for bootstrap in (self.source, self.target)
        )
        return source, target

    def told(self, event: Event) -> list[Trouble]:
        return [each for each in self.heard if each.event is event]


@pytest.fixture
def scene(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> Scene:
    return Scene(source_cluster, target_cluster, unique_topic("recoded"))


def _records(count: int, size: int = 20, *, ahead_ms: int = 0) -> list[Record]:
    return [
        Record(key=b"k%d" % n, value=b"%d" % n * size, headers=(), timestamp_ms=NOW_MS + n + ahead_ms)
        for n in range(count)
    ]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_log_that_starts_inside_of_a_batch_is_mirrored_from_there(scene: Scene, codec: str) -> None:
    create_topic(scene.source, scene.topic)
    scene.write(_records(100), codec)
    delete_records(scene.source, scene.topic, 0, before_offset=37)
    assert scene.mirror().stopped is None
    assert_identical(scene.source, scene.target, [scene.topic], records=63)
    scene.write(_records(10))
    assert scene.mirror().stopped is None
    assert_identical(scene.source, scene.target, [scene.topic], records=73)


def test_a_loss_that_ends_inside_of_a_batch_is_filled_up_to_there(scene: Scene) -> None:
    create_topic(scene.source, scene.topic)
    scene.write(_records(10))
    assert scene.mirror().next_offset == 10
    scene.write(_records(100))
    delete_records(scene.source, scene.topic, 0, before_offset=60)
    assert scene.mirror(on_loss=OnLoss.CONTINUE).stopped is None
    source, target = scene.both()
    assert [each.offset for each in target] == [*range(10), *range(60, 110)]
    assert target[10:] == source


def test_holes_that_compaction_left_are_gaps(old_source: LabCluster, target_cluster: LabCluster) -> None:
    scene = Scene(old_source, target_cluster, HOLES)
    assert scene.mirror().stopped is None
    source, target = scene.both()
    assert [each.offset for each in source] == [4, 5, 8, 12, *range(20, 50), 60, 62, 64, 66, 90]
    assert target == source
    scene.write(_records(20))
    assert scene.mirror().stopped is None
    source, target = scene.both()
    assert target == source
    assert len(target) == 59


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_log_append_time_is_kept_as_the_records_own(scene: Scene, codec: str) -> None:
    create_topic(scene.source, scene.topic, configs={"message.timestamp.type": "LogAppendTime"})
    for seed in range(2):
        scene.write(_records(50, ahead_ms=-DAY_MS), codec)
        produce_records(scene.source, scene.topic, list(mixed_records(seed, 50)), codec=codec)
        assert scene.mirror().stopped is None
    source, target = scene.both()
    assert target == source
    assert len(target) == 200
    assert {each.timestamp_type for each in scene.read(scene.source)} == {"LogAppendTime"}
    assert {each.timestamp_type for each in scene.read(scene.target)} == {"CreateTime"}


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_batch_larger_than_the_target_takes_is_split(scene: Scene, codec: str) -> None:
    create_topic(scene.source, scene.topic)
    create_topic(scene.target, scene.topic, configs={"max.message.bytes": "3000"})
    noise = [
        Record(key=None, value=(record.value or b"") + b"%d" % n * 100, headers=(), timestamp_ms=NOW_MS)
        for n, record in enumerate(_records(200))
    ]
    for _ in range(2):
        scene.write(noise, codec)
        assert scene.mirror().stopped is None
    assert_identical(scene.source, scene.target, [scene.topic], records=400)


def test_a_record_larger_than_the_target_takes_is_left_out_where_the_link_says_so(scene: Scene) -> None:
    create_topic(scene.source, scene.topic)
    create_topic(scene.target, scene.topic, configs={"max.message.bytes": "20000"})
    large = Record(key=b"large", value=b"x" * 50_000, headers=(), timestamp_ms=NOW_MS)
    scene.write([*_records(5), large, *_records(5)])
    stopped = scene.mirror()
    assert stopped.stopped is not None
    assert (stopped.stopped.reason, stopped.next_offset) == (StopReason.TOO_LARGE, 5)
    assert scene.mirror(oversize=Oversize.SKIP).stopped is None
    (told,) = scene.told(Event.RECORD_SKIPPED)
    assert (told.first_offset, told.next_offset) == (5, 6)
    assert "b'large'" in told.message
    scene.write([large])
    assert scene.mirror(oversize=Oversize.SKIP).stopped is None
    scene.write(_records(5))
    assert scene.mirror(oversize=Oversize.SKIP).stopped is None  # behind a marker for one that was left out
    source, target = scene.both()
    assert target == [each for each in source if each.key != b"large"]
    assert [each.offset for each in target] == [*range(5), *range(6, 11), *range(12, 17)]


def test_times_that_the_target_refuses_are_clamped_where_the_link_says_so(scene: Scene) -> None:
    create_topic(scene.source, scene.topic, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    create_topic(
        scene.target,
        scene.topic,
        configs={"message.timestamp.before.max.ms": str(10 * DAY_MS), "retention.ms": "-1"},
    )
    scene.write([*_records(5), *_records(5, ahead_ms=DAY_MS)])
    stopped = scene.mirror()
    assert stopped.stopped is not None
    assert stopped.stopped.reason == StopReason.TIMESTAMP
    assert scene.mirror(timestamps=Timestamps.CLAMP).stopped is None
    scene.write([*_records(5), *_records(5, ahead_ms=-20 * DAY_MS), *_records(1)])
    assert scene.mirror(timestamps=Timestamps.CLAMP).stopped is None
    scene.write(_records(3, ahead_ms=DAY_MS))
    assert scene.mirror(timestamps=Timestamps.CLAMP).stopped is None
    source, target = scene.both()
    changed = [(a, b) for a, b in zip(source, target, strict=True) if a != b]
    assert [a.offset for a, _ in changed] == [*range(5, 10), *range(15, 20), *range(21, 24)]
    assert all(a._replace(timestamp_ms=0) == b._replace(timestamp_ms=0) for a, b in changed)
    now_ms = int(time.time() * 1000)
    assert all(abs(b.timestamp_ms - now_ms) < 11 * DAY_MS for _, b in changed)
    counts = [int(each.message.split()[0]) for each in scene.told(Event.TIMES_CLAMPED)]
    assert sum(counts) == 13


@pytest.mark.parametrize("topic", [OLD_0, OLD_1])
def test_messages_of_old_formats_are_mirrored_as_batches(
    old_source: LabCluster, target_cluster: LabCluster, topic: str
) -> None:
    scene = Scene(old_source, target_cluster, topic)
    held = 89 if topic == OLD_1 else 86
    for count in (held, held + 20):
        assert scene.mirror().stopped is None
        source, target = ([_timeless(each) for each in records] for records in scene.both())
        assert target == source
        assert len(target) == count
        scene.write(_records(20))


def _timeless(record: SeenRecord) -> SeenRecord:
    """No time is -1 or 0, as the format has it."""
    return record._replace(timestamp_ms=-1) if record.timestamp_ms <= 0 else record
