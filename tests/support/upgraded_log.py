"""Logs that brokers of an old release wrote, under a broker of another one: what an upgrade leaves behind, without the
releases in between. Both clusters have one broker; the old one is stopped. Must not know any code of the mirror.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from heliograph.lab.cluster import LabCluster

from .moved_log import CHECKPOINTS, forget_in_checkpoint
from .topics import create_topic

WRITTEN_BY_BROKERS = ("*.log", "*.index", "*.timeindex")


def upgrade_logs(old: LabCluster, new: LabCluster, topics: Iterable[str], *, partitions: int) -> None:
    """Segments and their indexes, as the old broker has closed them. Nothing is deleted by age: a segment without
    times is as old as its file."""
    topics = list(topics)
    for topic in topics:
        create_topic(new.bootstrap_servers, topic, partitions, configs={"retention.ms": "-1"})
    (broker,) = new.brokers
    (writer,) = old.brokers
    broker.stop()
    data = broker.directory / "data"
    for topic in topics:
        for number in range(partitions):
            _replace(writer.directory / "data" / f"{topic}-{number}", data / f"{topic}-{number}")
        for name in CHECKPOINTS:
            forget_in_checkpoint(data / name, topic)
    broker.start()


def _replace(written: Path, place: Path) -> None:
    for path in place.iterdir():
        if path.name != "partition.metadata":  # the topic's id
            path.unlink()
    for pattern in WRITTEN_BY_BROKERS:
        for path in written.glob(pattern):
            shutil.copyfile(path, place / path.name)
