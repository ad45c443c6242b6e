"""What driver and lanes say to each other: every message of the control line, its only encoder and its only decoder.

    driver ── Order ──▶ lane      OpenLinks, Assign, GrantAttempts, Revoke, Renew, Stop
    driver ◀── Report ── lane     Hello, Heartbeat, Progress, Occurrences, WantsAttempts, Revoked, Drained, LogLine

A message is JSON text, `{"type": its kind, its fields ...}`. Whatever else arrives is a ProtocolError, which repeats
nothing of it: properties of clusters hold passwords. Must not know sockets and threads, nor what an order means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, get_args

from heliograph.copier.lane_clusters import LinkClusters
from heliograph.copier.spec import CopySpec
from heliograph.engine.frames import json_object
from heliograph.model.errors import ProtocolError
from heliograph.model.fill_way import FillWay
from heliograph.model.occurrence import Occurrence, decode_occurrence, encode_occurrence
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus, decode_row, encode_row
from heliograph.model.policy import LinkPolicy

# A frame may hold 8 MB (frames.py): 8 KB for each. The three names in it have 249 characters at most.
ROWS_PER_FRAME = 1000

Fields = dict[str, Any]
Row = TypeVar("Row")
Plain = TypeVar("Plain", str, int, bool)


def portions(rows: Sequence[Row]) -> Iterator[tuple[Row, ...]]:
    """As many as one message may hold, each."""
    for at in range(0, len(rows), ROWS_PER_FRAME):
        yield tuple(rows[at : at + ROWS_PER_FRAME])


# -- to a lane


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLinks:
    """Partitions of these links will follow."""

    kind: ClassVar = "links"
    links: tuple[LinkClusters, ...]

    def fields(self) -> Fields:
        return {"links": [_encode_link(each) for each in self.links]}

    @classmethod
    def of(cls, given: Fields) -> Self:
        return cls(links=tuple(_decode_link(each) for each in given["links"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Copy these. `clear_in_s`: after that, whatever their last holder has sent is over. `pid`: the process that is
    meant; its successor of the same number is given its partitions anew."""

    kind: ClassVar = "assign"
    specs: tuple[CopySpec, ...]
    clear_in_s: float = 0.0
    pid: int | None = None

    def fields(self) -> Fields:
        specs = [_encode_spec(spec) for spec in self.specs]
        return {"specs": specs, "clear_in_s": self.clear_in_s, "pid": self.pid}

    @classmethod
    def of(cls, given: Fields) -> Self:
        specs = tuple(_decode_spec(each) for each in given["specs"])
        pid = None if given["pid"] is None else _plain(int, given["pid"])
        return cls(specs=specs, clear_in_s=float(given["clear_in_s"]), pid=pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantAttempts:
    """Gaps of these partitions may be filled with these attempts (copier/fill.py), by the process `pid` alone."""

    kind: ClassVar = "attempts"
    attempts: tuple[tuple[MirrorPartition, int], ...]
    pid: int

    def fields(self) -> Fields:
        return {"attempts": self.attempts, "pid": self.pid}

    @classmethod
    def of(cls, given: Fields) -> Self:
        return cls(attempts=_decode_attempts(given["attempts"]), pid=_plain(int, given["pid"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke:
    """Let go of these; each is answered with `Revoked`."""

    kind: ClassVar = "revoke"
    partitions: tuple[MirrorPartition, ...]

    def fields(self) -> Fields:
        return {"partitions": self.partitions}

    @classmethod
    def of(cls, given: Fields) -> Self:
        return cls(partitions=tuple(_decode_partition(each) for each in given["partitions"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """The answer to a heartbeat. `asked_at`: its `at`, from which the lane counts. `leases`: seconds by link, of the
    links that are the driver's; 0: no exclusive lease. `now`: the time by the driver's clock."""

    kind: ClassVar = "renew"
    asked_at: float
    leases: Mapping[str, float]
    now: float

    def fields(self) -> Fields:
        return {"asked_at": self.asked_at, "leases": dict(self.leases), "now": self.now}

    @classmethod
    def of(cls, given: Fields) -> Self:
        leases = {link: float(lasts_s) for link, lasts_s in given["leases"].items()}
        return cls(asked_at=float(given["asked_at"]), leases=leases, now=float(given["now"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Drain and end."""

    kind: ClassVar = "stop"

    def fields(self) -> Fields:
        return {}

    @classmethod
    def of(cls, _given: Fields) -> Self:
        return cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class LineEnded:
    """What a lane's own end of the line orders, and nobody sends: there is no driver any more, drain and end."""

    why: str


# -- from a lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A lane's first word. A driver of another release reads it, too: by `versions` it knows that it is one."""

    kind: ClassVar = "hello"
    pid: int
    host: str
    versions: Mapping[str, str]

    def fields(self) -> Fields:
        return {"pid": self.pid, "host": self.host, "versions": dict(self.versions)}

    @classmethod
    def of(cls, given: Fields) -> Self:
        versions = {name: _plain(str, version) for name, version in given["versions"].items()}
        return cls(pid=_plain(int, given["pid"]), host=_plain(str, given["host"]), versions=versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """`at`: when it was sent, by the lane's clock. `pulse`: how often the data loop has turned. `wants`: the links
    whose exclusive lease is needed. `heard`: the driver's time as it was heard last, and for how long the lane has
    counted since."""

    kind: ClassVar = "heartbeat"
    at: float
    pulse: int
    wants: tuple[str, ...] = ()
    heard: tuple[float, float] | None = None

    def fields(self) -> Fields:
        return {"at": self.at, "pulse": self.pulse, "wants": self.wants, "heard": self.heard}

    @classmethod
    def of(cls, given: Fields) -> Self:
        wants = tuple(_plain(str, link) for link in given["wants"])
        heard = None
        if given["heard"] is not None:
            drivers_time, since_s = given["heard"]
            heard = (float(drivers_time), float(since_s))
        return cls(at=float(given["at"]), pulse=_plain(int, given["pulse"]), wants=wants, heard=heard)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How partitions stand. Of thousands, five times a second: the rows are encoded by model/partition_status.py."""

    kind: ClassVar = "progress"
    rows: tuple[PartitionStatus, ...]

    def fields(self) -> Fields:
        return {"rows": [encode_row(row) for row in self.rows]}

    @classmethod
    def of(cls, given: Fields) -> Self:
        return cls(rows=tuple(decode_row(row) for row in given["rows"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrences:
    """What an operator must hear, in the order in which the lane met it."""

    kind: ClassVar = "occurrences"
    occurrences: tuple[Occurrence, ...]

    def fields(self) -> Fields:
        return {"occurrences": [encode_occurrence(each) for each in self.occurrences]}

    @classmethod
    def of(cls, given: Fields) -> Self:
        return cls(occurrences=tuple(decode_occurrence(each) for each in given["occurrences"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class WantsAttempts:
    """Gaps of these partitions wait for an attempt above these (copier/fill.py). `pid`: the process that asks."""

    kind: ClassVar = "wants_attempts"
    wants: tuple[tuple[MirrorPartition, int], ...]
    pid: int

    def fields(self) -> Fields:
        return {"wants": self.wants, "pid": self.pid}

    @classmethod
    def of(cls, given: Fields) -> Self:
        return cls(wants=_decode_attempts(given["wants"]), pid=_plain(int, given["pid"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """The lane has let go of it. `clean`: nothing that it sent can still arrive."""

    kind: ClassVar = "revoked"
    partition: MirrorPartition
    clean: bool

    def fields(self) -> Fields:
        return {"partition": self.partition, "clean": self.clean}

    @classmethod
    def of(cls, given: Fields) -> Self:
        return cls(partition=_decode_partition(given["partition"]), clean=_plain(bool, given["clean"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """A lane's last word. `clean`: nothing that it sent can still arrive."""

    kind: ClassVar = "drained"
    clean: bool

    def fields(self) -> Fields:
        return {"clean": self.clean}

    @classmethod
    def of(cls, given: Fields) -> Self:
        return cls(clean=_plain(bool, given["clean"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """What was logged in the lane. `level` by its name."""

    kind: ClassVar = "log"
    level: str
    logger: str
    words: str

    def fields(self) -> Fields:
        return {"level": self.level, "logger": self.logger, "words": self.words}

    @classmethod
    def of(cls, given: Fields) -> Self:
        return cls(
            level=_plain(str, given["level"]),
            logger=_plain(str, given["logger"]),
            words=_plain(str, given["words"]),
        )


Order = OpenLinks | Assign | GrantAttempts | Revoke | Renew | Stop
Report = Hello | Heartbeat | Progress | Occurrences | WantsAttempts | Revoked | Drained | LogLine

_ORDERS: dict[str, type[Order]] = {each.kind: each for each in get_args(Order)}
_REPORTS: dict[str, type[Report]] = {each.kind: each for each in get_args(Report)}
# What reading values of a wrong type or shape raises.
_MALFORMED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


def encode(message: Order | Report) -> bytes:
    return json.dumps({"type": message.kind, **message.fields()}, separators=(",", ":")).encode()


def decode_order(body: bytes) -> Order:
    return _decode(body, _ORDERS)


def decode_report(body: bytes) -> Report:
    return _decode(body, _REPORTS)


Said = TypeVar("Said", Order, Report)


def _decode(body: bytes, kinds: Mapping[str, type[Said]]) -> Said:
    given = json_object(body)
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        raise ProtocolError(f"a control message of an unknown type: {str(kind)[:40]!r}")
    try:
        return kinds[kind].of(given)
    except _MALFORMED as problem:
        # Without its text and its traceback, which would show what it could not read.
        raise ProtocolError(f"a malformed control message: {kind} ({type(problem).__name__})") from None


# -- values in messages


def _plain(typed: type[Plain], value: object) -> Plain:
    if type(value) is not typed:
        raise TypeError(f"not of type {typed.__name__}")
    return value


def _encode_link(clusters: LinkClusters) -> Fields:
    return {
        "link": clusters.link,
        "source": clusters.source,
        "target": clusters.target,
        "source_properties": dict(clusters.source_properties),
        "target_properties": dict(clusters.target_properties),
    }


def _decode_link(given: Fields) -> LinkClusters:
    return LinkClusters(
        link=_plain(str, given["link"]),
        source=_plain(str, given["source"]),
        target=_plain(str, given["target"]),
        source_properties=_decode_properties(given["source_properties"]),
        target_properties=_decode_properties(given["target_properties"]),
    )


def _decode_properties(given: Fields) -> dict[str, str]:
    return {name: _plain(str, value) for name, value in given.items()}


_SPEC_FIELDS = tuple(field.name for field in fields(CopySpec))


def _encode_spec(spec: CopySpec) -> Fields:
    return {**{name: getattr(spec, name) for name in _SPEC_FIELDS}, "policy": spec.policy.texts()}


def _decode_spec(given: Fields) -> CopySpec:
    if given.keys() != set(_SPEC_FIELDS):
        raise ValueError("a spec of other fields")
    loss = given["accepted_loss"]
    typed = {
        "partition": _decode_partition(given["partition"]),
        "policy": LinkPolicy.from_texts(given["policy"]),
        "accepted_loss": None if loss is None else tuple(loss),
        "fill_way": FillWay(given["fill_way"]),
    }
    return CopySpec(**{**given, **typed})


def _decode_partition(given: Sequence[Any]) -> MirrorPartition:
    link, source_topic, target_topic, partition = given
    return MirrorPartition(
        _plain(str, link), _plain(str, source_topic), _plain(str, target_topic), _plain(int, partition)
    )


def _decode_attempts(given: Sequence[Any]) -> tuple[tuple[MirrorPartition, int], ...]:
    return tuple((_decode_partition(key), _plain(int, attempt)) for key, attempt in given)
