"""What is told of a transaction that holds a mirror of committed records back: pure words.

Must not know whom to ask.
"""

from __future__ import annotations

from datetime import UTC, datetime

from heliograph.cluster.transactions import OpenTransaction
from heliograph.model.events import Event, Trouble

ONGOING = "Ongoing"
ABORT_IF = "  # if its producer is gone: it aborts what was written"


def held_back(
    found: OpenTransaction | str | None, first_offset: int, next_offset: int, held_s: float
) -> Trouble:
    """[first_offset, next_offset): what is held back. `found`: the transaction; None: the leader knows of none; a text:
    why nobody could be asked."""
    held = f"has held back {next_offset - first_offset} offsets for {held_s:.0f} s"
    return Trouble(
        Event.TRANSACTION_OPEN,
        f"a transaction open at offset {first_offset} of the source ({_who(found)}) {held}",
        first_offset,
        next_offset,
        found.abort_command + ABORT_IF if isinstance(found, OpenTransaction) else None,
    )


def _who(found: OpenTransaction | str | None) -> str:
    if found is None:
        return "its producer is not known"
    if isinstance(found, str):
        return f"its producer cannot be asked for: {found}"
    owner = found.owner
    if owner is None:
        words = [f"producer id {found.producer_id}", "transactional id not known"]
    else:
        words = [f"producer id {found.producer_id}", f"transactional id {owner.transactional_id}"]
        if owner.state != ONGOING:
            words.append(f"its coordinator does not know the transaction and says {owner.state}")
    return ", ".join([*words, _since(found)])


def _since(found: OpenTransaction) -> str:
    """The last record says since when it is open at least."""
    began = _moment(found.owner.since_ms) if found.owner and found.owner.since_ms is not None else None
    if began is not None:
        return f"open since {began}"
    last = _moment(found.last_record_ms)
    return f"its last record is of {last}" if last is not None else "since when is not known"


def _moment(time_ms: int) -> str | None:
    """None: not a time of any calendar. Producers choose the timestamps of records."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC) if time_ms >= 0 else None
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment else None
