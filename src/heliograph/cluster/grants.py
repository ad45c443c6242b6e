"""Lines for a shell that grant a right: the one place where kafka-acls.sh is spelt.

Owns Kafka's names of rights and resources. Must not know what a link needs, nor why: that is the controller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from shlex import quote

from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.security.principal import principal_of
from heliograph.cluster.tool_servers import tool_servers
from heliograph.model.ledger import OWN_PREFIX

NAMES_SHOWN = 5


class Right(IntEnum):
    """What an ACL allows, by Kafka's own numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11

    @property
    def operation(self) -> str:
        """As kafka-acls.sh spells it: DescribeConfigs."""
        return self.name.title().replace("_", "")


class Resource(StrEnum):
    """What a right is on, by the option of kafka-acls.sh."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


def grant_line(
    properties: ClientProperties, right: Right, resource: Resource, names: Sequence[str] = ()
) -> str:
    """To this client, as the brokers know it. At most five names are written out; a cluster has none."""
    named = [part for name in names[:NAMES_SHOWN] for part in (f"--{resource}", quote(name))]
    line = _line(properties, [right], named or [f"--{resource}"])
    left_out = len(names) - NAMES_SHOWN
    return line + (f"  # and {left_out} more" if left_out > 0 else "")


def prefix_grant_line(
    properties: ClientProperties, rights: Sequence[Right], resource: Resource, prefix: str
) -> str:
    """Of several rights, on all whose names begin so."""
    named = [f"--{resource}", quote(prefix), "--resource-pattern-type", "prefixed"]
    return _line(properties, rights, named)


def own_topics_grant_line(properties: ClientProperties) -> str:
    """All that a mirror needs of the topics that it keeps on a target cluster (docs/LEDGER.md)."""
    return prefix_grant_line(properties, (Right.CREATE, Right.READ, Right.WRITE), Resource.TOPIC, OWN_PREFIX)


def _line(properties: ClientProperties, rights: Sequence[Right], named: Sequence[str]) -> str:
    line = ["kafka-acls.sh", "--bootstrap-server", tool_servers(properties), "--add"]
    line += ["--allow-principal", quote(principal_of(properties.security))]
    operations = [part for right in rights for part in ("--operation", right.operation)]
    return " ".join([*line, *operations, *named])


def marker_grant_line(properties: ClientProperties) -> str:
    """Brokers take either right for markers, before 3.8 only the second."""
    line = grant_line(properties, Right.ALTER, Resource.CLUSTER)
    return f"{line}  # before Kafka 3.8: --operation {Right.CLUSTER_ACTION.operation}"


def transactional_grant_line(properties: ClientProperties, prefix: str) -> str:
    """On all transactional ids that begin so. WRITE includes DESCRIBE."""
    line = grant_line(properties, Right.WRITE, Resource.TRANSACTIONAL_ID, [prefix])
    return f"{line} --resource-pattern-type prefixed"


def gap_grant_lines(properties: ClientProperties, prefix: str) -> str:
    """Both rights by which gaps can be filled. The one that allows less is the one that is pasted."""
    return (
        f"{transactional_grant_line(properties, prefix)}  # or, much quicker: {marker_grant_line(properties)}"
    )
