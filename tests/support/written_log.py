"""The log of a stopped broker written by hand: what no broker of today takes from a producer, but holds and serves.

Batches with holes are what its cleaner leaves, and messages of formats 0 and 1 what was there before an upgrade. Must
not know any code of the mirror.
"""

from __future__ import annotations

from pathlib import Path

from .moved_log import CHECKPOINTS, forget_in_checkpoint


def write_log(directory: Path, topic: str, log: bytes) -> None:
    """All that partition 0 holds."""
    data = directory / "data"
    place = data / f"{topic}-0"
    (segment,) = place.glob("*.log")
    segment.write_bytes(log)
    for path in place.iterdir():
        if path.suffix in (".index", ".timeindex", ".snapshot", ".txnindex"):
            path.unlink()
    for name in CHECKPOINTS:
        forget_in_checkpoint(data / name, topic)
