"""A fetch session (KIP-227): what a broker knows of what we want, so that a request says only what has changed.

Sans I/O. Owns what is wanted, what the broker was told of it, the session's id and epoch, and what the broker has told
of each partition. Must not know copies, memory or connections.

    want, forget ──▶ request() ──▶ broker ──▶ answered(reply)
                        ▲                          │ the session is gone, or refused
                        └── all is said again ◀────┴── lost(): no answer, whatever became of the request

An answer leaves out what has not changed: no records (or no room for them), no error, the same high watermark and log
start as were told last. What has joined is in the answer in any case. A broker that keeps no session for us, or
is too old for that (below version 7), is told everything with every request.
"""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import NO_SESSION, FetchedPartition, FetchReply, FetchWant
from heliograph.wire.fetch_request import FIRST_EPOCH, FetchAsk

Where = tuple[str, int]
_LARGEST_EPOCH = 2**31 - 1
_NO_RECORDS = memoryview(b"")
# What is said of a session, and not of a partition: a new session mends it.
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class FetchSession:
    def __init__(self) -> None:
        # In the order in which a broker reads: whoever was given records goes to the end. Only the first that has some
        # is sure to get a whole batch, however large.
        self._wanted: dict[Where, FetchWant] = {}
        self._known: dict[Where, FetchWant] = {}  # what the broker believes that we want
        self._changed: dict[Where, None] = {}  # where the two may differ
        self._told: dict[Where, tuple[int, int, int]] = {}  # high watermark, last stable offset, log start
        self._names: dict[bytes, str] | None = None  # None: topics go by their names
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH

    def __len__(self) -> int:
        """How many partitions are wanted."""
        return len(self._wanted)

    def want(self, want: FetchWant) -> None:
        """From the next request on."""
        where = want[:2]
        self._wanted[where] = want
        self._changed[where] = None

    def forget(self, where: Where) -> None:
        """From the next request on: an answer about it now would be in vain, and come at once, again and again."""
        if self._wanted.pop(where, None) is not None:
            self._changed[where] = None

    # -- requests

    def request(self) -> FetchAsk:
        """What to send now. Its answer must come through `answered`, or else `lost`."""
        if self._epoch != FIRST_EPOCH and self._names is not None and self._must_begin_again():
            self._epoch = FIRST_EPOCH
        return self._everything() if self._epoch == FIRST_EPOCH else self._difference()

    def _must_begin_again(self) -> bool:
        """A session is by names or by ids from its first request on. And a topic that has another id now, under its old
        name, would be both named and forgotten by one request: an older broker, which goes by names, forgets it."""
        for where in self._changed:
            want, known = self._wanted.get(where), self._known.get(where)
            if want is not None and not want.topic_id:
                return True
            if want is not None and known is not None and want.topic_id != known.topic_id:
                return True
        return False

    def _everything(self) -> FetchAsk:
        wants = list(self._wanted.values())
        by_id = all(want.topic_id for want in wants)
        self._names = {want.topic_id: want.topic for want in wants} if by_id else None
        self._known = dict(self._wanted)
        self._changed.clear()
        self._told.clear()
        # Names the session that it takes the place of, so that the broker ends that one.
        return FetchAsk(wants, [], self._id, FIRST_EPOCH, self._names)

    def _difference(self) -> FetchAsk:
        wants: list[FetchWant] = []
        forgotten: list[FetchWant] = []
        for where in self._changed:
            want, known = self._wanted.get(where), self._known.get(where)
            if want == known:
                continue
            if want is None:
                assert known is not None
                forgotten.append(known)
                self._told.pop(where, None)
                del self._known[where]
            else:
                wants.append(want)
                self._known[where] = want
                if self._names is not None:
                    self._names[want.topic_id] = want.topic
        self._changed.clear()
        return FetchAsk(wants, forgotten, self._id, self._epoch, self._names)

    # -- answers

    def answered(self, reply: FetchReply) -> None:
        """To the last request, without an error."""
        self._id = reply.session_id
        self._epoch = FIRST_EPOCH if reply.session_id == NO_SESSION else self._epoch % _LARGEST_EPOCH + 1
        for fetched in reply.partitions:
            self._note(fetched)

    def refused(self, code: int) -> bool:
        """The last request was, as a whole. Whether all that is wrong is the session, so that another one mends it."""
        goes_on = self._epoch != FIRST_EPOCH
        self.lost()
        return goes_on and code in _SESSION_ERRORS

    def lost(self) -> None:
        """No answer to the last request will come: what the broker knows is in doubt."""
        self._epoch = FIRST_EPOCH

    def _note(self, fetched: FetchedPartition) -> None:
        where = (fetched.topic, fetched.partition)
        if fetched.error or where not in self._known:
            self._told.pop(where, None)  # the broker speaks of it again when the error is over
            return
        self._told[where] = (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset)
        if fetched.records and where in self._wanted:
            self._wanted[where] = self._wanted.pop(where)

    def unchanged(self, where: Where) -> FetchedPartition | None:
        """What the broker has said by leaving this partition out; None: nothing, it has never spoken of it."""
        told = self._told.get(where)
        if told is None:
            return None
        high_watermark, last_stable, log_start = told
        return FetchedPartition(
            *where, 0, high_watermark, last_stable, log_start, -1, _NO_RECORDS, None, None
        )


def without_session(wants: Iterable[FetchWant]) -> FetchAsk:
    """A request for these, once."""
    wants = list(wants)
    by_id = all(want.topic_id for want in wants)
    return FetchAsk(wants, [], names={want.topic_id: want.topic for want in wants} if by_id else None)
