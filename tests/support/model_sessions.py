"""A broker's fetch sessions (KIP-227) in memory: what Apache Kafka's FetchSession does, for model brokers and tests.

open(ask) ──▶ OpenFetch.wants: what is to be read, in order ──▶ OpenFetch.reply(partitions): what of it is said
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import NO_SESSION, FetchedPartition, FetchReply, FetchWant
from heliograph.wire.fetch_request import FIRST_EPOCH, LAST_EPOCH, FetchAsk

NEVER_TOLD = -1


@dataclass(slots=True)
class _Cached:
    want: FetchWant
    high_watermark: int = NEVER_TOLD
    log_start: int = NEVER_TOLD

    def must_tell(self, got: FetchedPartition) -> bool:
        same = (got.high_watermark, got.log_start_offset) == (self.high_watermark, self.log_start)
        self.high_watermark = NEVER_TOLD if got.error else got.high_watermark
        self.log_start = got.log_start_offset
        return not same or bool(got.records or got.error or got.diverging_epoch)


@dataclass(slots=True)
class _Session:
    number: int
    by_id: bool
    epoch: int = FIRST_EPOCH + 1
    partitions: dict[tuple[str | bytes, int], _Cached] = field(default_factory=dict)

    def key(self, want: FetchWant) -> tuple[str | bytes, int]:
        return want.topic_id if self.by_id else want.topic, want.partition

    def update(self, ask: FetchAsk) -> None:
        for want in ask.wants:
            cached = self.partitions.setdefault(self.key(want), _Cached(want))
            cached.want = want
        for want in ask.forgotten:  # behind the wants: what is in both is gone
            self.partitions.pop(self.key(want), None)


class OpenFetch:
    """A request that is being answered. `session` None: without one."""

    def __init__(
        self, sessions: ModelSessions, ask: FetchAsk, session: _Session | None, *, begins: bool = False
    ) -> None:
        self._sessions = sessions
        self._session = session
        self._expected = session.epoch if session is not None else 0
        self._begins = begins
        self._by_id = ask.names is not None
        self.wants = [cached.want for cached in session.partitions.values()] if session else list(ask.wants)

    def reply(
        self,
        partitions: Iterable[FetchedPartition],
        *,
        throttle_ms: int = 0,
        mute: bool = False,
        compares_epochs: bool = True,
    ) -> FetchReply:
        """`mute`: a quota that leaves all partitions out."""
        told = [] if mute else list(partitions)
        if self._session is None:
            number = self._sessions.begin(self.wants, told, by_id=self._by_id) if self._begins else NO_SESSION
            return FetchReply(throttle_ms, 0, told, compares_epochs, NO_SESSION if mute else number)
        session = self._session
        if session.epoch != self._expected:  # the session went on without us
            error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            return FetchReply(throttle_ms, error, [], compares_epochs, session.number)
        by_place = {
            (cached.want.topic, cached.want.partition): cached for cached in session.partitions.values()
        }
        news = [got for got in told if by_place[got.topic, got.partition].must_tell(got)]
        for got in news:
            if got.records:
                cached = by_place[got.topic, got.partition]
                session.partitions[session.key(cached.want)] = session.partitions.pop(
                    session.key(cached.want)
                )
        return FetchReply(throttle_ms, 0, news, compares_epochs, session.number)


class ModelSessions:
    """`slots`: how many sessions are kept; the oldest one goes when another begins."""

    def __init__(self, slots: int = 1000) -> None:
        self.slots = slots
        self._sessions: dict[int, _Session] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def forget_all(self) -> None:
        """The broker has restarted, or others needed the room."""
        self._sessions.clear()

    def held(self) -> dict[int, dict[tuple[str, int], FetchWant]]:
        """What each session holds, by its id."""
        return {
            number: {
                (cached.want.topic, cached.want.partition): cached.want
                for cached in session.partitions.values()
            }
            for number, session in self._sessions.items()
        }

    def open(self, ask: FetchAsk) -> OpenFetch | FetchReply:
        if ask.session_epoch in (FIRST_EPOCH, LAST_EPOCH):
            self._sessions.pop(ask.session_id, None)
            return OpenFetch(self, ask, None, begins=ask.session_epoch == FIRST_EPOCH)
        session = self._sessions.get(ask.session_id)
        if session is None:
            return FetchReply(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        if session.epoch != ask.session_epoch:
            return FetchReply(0, ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
        if session.by_id != (ask.names is not None):
            return FetchReply(0, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, [])
        session.update(ask)
        if not session.partitions:
            del self._sessions[session.number]
            return OpenFetch(self, ask, None)
        session.epoch += 1
        return OpenFetch(self, ask, session)

    def begin(self, wants: list[FetchWant], told: list[FetchedPartition], *, by_id: bool) -> int:
        if not self.slots or not told:
            return NO_SESSION
        if len(self._sessions) >= self.slots:
            del self._sessions[next(iter(self._sessions))]
        self._made += 1
        session = self._sessions[self._made] = _Session(self._made, by_id)
        by_place = {(got.topic, got.partition): got for got in told}
        for want in wants:
            cached = session.partitions[session.key(want)] = _Cached(want)
            cached.must_tell(by_place[want.topic, want.partition])
        return session.number
