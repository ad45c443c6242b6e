"""How a link copies: the choices that change what is on the target, as one frozen value.

Owns the choices and their defaults. A policy is carried whole, from the config through the plan to the copier of each
partition, so that a choice cannot be accepted and then forgotten on the way. Must not know how a config file spells
it, nor which values are built yet (interface/config).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum

EARLIEST = "earliest"


class Offsets(StrEnum):
    IDENTICAL = "identical"
    TRANSLATED = "translated"


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class OnLoss(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"


class Oversize(StrEnum):
    STOP = "stop"
    SKIP = "skip"


class Timestamps(StrEnum):
    STOP = "stop"
    CLAMP = "clamp"


class OnSourceDelete(StrEnum):
    KEEP = "keep"
    DELETE = "delete"


class Forward(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPolicy:
    """The defaults are what a link does that says nothing.

    `start` is a text and not a choice: it may also be a time, or an age such as `-7d`.
    """

    offsets: Offsets = Offsets.IDENTICAL
    start: str = EARLIEST
    isolation: Isolation = Isolation.READ_COMMITTED
    on_loss: OnLoss = OnLoss.STOP
    oversize: Oversize = Oversize.STOP
    timestamps: Timestamps = Timestamps.STOP
    on_source_delete: OnSourceDelete = OnSourceDelete.KEEP
    forward: Forward = Forward.AUTO

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> LinkPolicy:
        """The inverse of `texts`. Every key must be there: one that is missing was lost on the way (KeyError)."""
        return cls(
            offsets=Offsets(texts["offsets"]),
            start=texts["start"],
            isolation=Isolation(texts["isolation"]),
            on_loss=OnLoss(texts["on_loss"]),
            oversize=Oversize(texts["oversize"]),
            timestamps=Timestamps(texts["timestamps"]),
            on_source_delete=OnSourceDelete(texts["on_source_delete"]),
            forward=Forward(texts["forward"]),
        )

    def texts(self) -> dict[str, str]:
        """By the config's own keys and words."""
        return {name: str(value) for name, value in asdict(self).items()}

    def differences(self) -> dict[str, str]:
        """What is not the default."""
        default = DEFAULT_POLICY.texts()
        return {name: text for name, text in self.texts().items() if text != default[name]}


DEFAULT_POLICY = LinkPolicy()
POLICY_KEYS = tuple(field.name for field in fields(LinkPolicy))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicy:
    """How the topics whose whole name matches `match` are copied."""

    match: str
    policy: LinkPolicy
