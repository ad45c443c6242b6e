"""A topic whose empty logs begin at any offset one likes: moved on disk, while the cluster's only broker is stopped.

Nobody can append two thousand million records in a test, and a broker takes no batch that counts more offsets than it
holds records. But an empty log is a file with its first offset for a name.
"""

from __future__ import annotations

from pathlib import Path

from heliograph.lab.cluster import LabCluster

from .topics import create_topic

CHECKPOINTS = (
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)


def create_moved_topic(
    cluster: LabCluster, topic: str, start_offset: int, *, partitions: int = 1, **configs: str
) -> None:
    """Partitions that start, and end, at this offset."""
    create_topic(
        cluster.bootstrap_servers,
        topic,
        partitions,
        configs={k.replace("_", "."): v for k, v in configs.items()},
    )
    (broker,) = cluster.brokers
    broker.stop()
    data = broker.directory / "data"
    for number in range(partitions):
        _move(data / f"{topic}-{number}", start_offset)
    for name in CHECKPOINTS:
        forget_in_checkpoint(data / name, topic)
    broker.start()


def _move(log: Path, start_offset: int) -> None:
    for path in log.iterdir():
        if path.suffix in (".index", ".timeindex", ".snapshot", ".txnindex"):
            path.unlink()
    (log / "leader-epoch-checkpoint").unlink(missing_ok=True)
    (segment,) = log.glob("*.log")
    assert segment.stat().st_size == 0, "only an empty log can be moved"
    segment.rename(log / f"{start_offset:020d}.log")


def forget_in_checkpoint(checkpoint: Path, topic: str) -> None:
    """A version, a count, and a line for each partition."""
    if not checkpoint.exists():
        return
    version, _, *lines = checkpoint.read_text().splitlines()
    kept = [line for line in lines if line.split()[0] != topic]
    checkpoint.write_text("\n".join([version, str(len(kept)), *kept]) + "\n")
