"""Whether a batch of a target that is built holds the source's records: fillers stand where the source holds nothing to
copy, or where a loss was told, until brokers remove them, and then nothing does."""

from __future__ import annotations

from .log_cleaner import is_filler
from .record_reader import SeenRecord, Unreadable, records_of
from .replica import Stored
from .source_history import Fates, Known, SourceHistory, holds


class BuiltHistory(SourceHistory):
    def differs_now(self, stored: Stored) -> str:
        if not stored.header.is_control and any(map(is_filler, records_of(stored.data))):
            return "holds fillers"
        return super().differs_now(stored)

    def _differs(self, stored: Stored, known: Known, fates: Fates) -> str:
        if stored.header.is_control:
            return super()._differs(stored, known, fates)
        self._fate.look()
        try:
            records = {each.offset_delta: each for each in records_of(stored.data)}
        except Unreadable as why:
            return f"holds records that cannot be read: {why}"
        base = stored.header.base_offset
        for offset in range(base, stored.header.next_offset):
            record = records.pop(offset - base, None)
            if record is None or is_filler(record):
                if False not in fates(offset) and offset not in self.told_lost:
                    return f"has {'no record' if record is None else 'a filler'} at {offset}, where the source has one"
            elif wrong := self._differs_at(stored, record, offset, known, fates):
                return wrong
        return "numbers records that are not its own" if records else ""

    def _differs_at(self, stored: Stored, record: SeenRecord, offset: int, known: Known, fates: Fates) -> str:
        there = [batch for batch in known(offset) if holds(batch, offset, record)]
        if True not in fates(offset) or not there:
            return f"holds another record than the source at {offset}"
        if all(batch.header.codec is not stored.header.codec for batch in there):
            return f"has {stored.header.codec.name} where the source has {there[0].header.codec.name}, at {offset}"
        return ""
