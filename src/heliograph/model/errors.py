"""Every error Heliograph raises on purpose, in one tree.

    HeliographError                    carries a hint for the operator and an exit code
    ├── UsageError                     wrong use or config                          exit 2
    │   └── ConfigError                all problems of a config file at once
    ├── CommandRefused                 what an operator wants cannot be done         exit 1
    ├── ClusterUnreachable             a cluster does not answer as Kafka           exit 3
    ├── EngineLost                     Spark's JVM or session is gone               exit 4
    ├── LabError                       a cluster of the lab did not start or stop   exit 1
    ├── OutputLost                     a result could not be written                exit 1
    ├── ProtocolError                  bytes that are not what Kafka's protocol says
    │   ├── CorruptBatch               a record batch whose checksum or shape is wrong
    │   └── DecompressionLimit         a record batch that decompresses to more than we take
    ├── RequestFailed                  a request has no usable answer
    │   ├── Disconnected               outcome unknown: it may still execute
    │   │   └── LineLeft               we ended the connection ourselves; the broker is well
    │   ├── RequestTimedOut            outcome unknown: it may still execute
    │   ├── ClusterMistaken            the cluster that answers is not the one that is configured
    │   ├── SecurityFailed             TLS or SASL failed
    │   │   ├── SecurityUnusable       a keystore, a certificate or a keytab cannot be used     exit 2
    │   │   └── AuthenticationFailed   we are not who the cluster lets in; not tried again with the same secret
    │   └── BrokerRefused              the broker answered with an error code
    └── PartitionStop                  one partition needs an operator; the others go on (P6, P7)

Errors state facts; whoever catches them chooses the recovery. `PartitionStop` is an integrity error:
it is never retried by the copier.
"""

from __future__ import annotations

from collections.abc import Sequence


class HeliographError(Exception):
    """Base of the tree. `hint` tells an operator what to do; `exit_code` is the CLI's."""

    exit_code = 4

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(HeliographError):
    exit_code = 2


class ConfigError(UsageError):
    """All problems of one configuration, each `path: what is wrong`."""

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = tuple(problems)


class CommandRefused(HeliographError):
    """What an operator wants cannot be done as things stand. Nothing was written."""

    exit_code = 1


class ClusterUnreachable(HeliographError):
    exit_code = 3


class EngineLost(HeliographError):
    exit_code = 4


class LabError(HeliographError):
    exit_code = 1


class OutputLost(HeliographError):
    """A result could not be written: a full disk, for example."""

    exit_code = 1


class ProtocolError(HeliographError):
    """Bytes from a peer that cannot be what Kafka's protocol says they are."""


class CorruptBatch(ProtocolError):
    """A record batch whose checksum or shape is wrong."""


class DecompressionLimit(ProtocolError):
    """A record batch that would decompress to more bytes than the limit; nothing beyond it was allocated."""


class RequestFailed(HeliographError):
    """A request has no usable answer."""


class Disconnected(RequestFailed):
    """The connection ended before the answer: the request may or may not have been executed."""


class LineLeft(Disconnected):
    """We ended the connection ourselves. The broker is well, and leads what it led."""


class RequestTimedOut(RequestFailed):
    """No answer in time: the request may or may not have been executed."""


class ClusterMistaken(RequestFailed):
    """The cluster that answers has another id than the one that is configured, or none at all."""


class SecurityFailed(RequestFailed):
    """TLS or SASL failed. What was sent before may have been executed, as after a disconnect."""


class SecurityUnusable(SecurityFailed):
    """A file or a text that secures connections cannot be used as it is; the message names it, and no secret in it."""

    exit_code = 2


class AuthenticationFailed(SecurityFailed):
    """The cluster does not accept who we say we are. To try again with the same secret could lock the account."""


class BrokerRefused(RequestFailed):
    """The broker answered with an error code."""

    def __init__(self, message: str, *, code: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class PartitionStop(HeliographError):
    """One partition cannot go on without an operator. `reason` is a stable code of model.states. `first_offset`,
    `next_offset`: the offsets that it is about, as a half-open range, where they are others than what comes next."""

    exit_code = 1

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        hint: str,
        first_offset: int | None = None,
        next_offset: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.first_offset = first_offset
        self.next_offset = next_offset
