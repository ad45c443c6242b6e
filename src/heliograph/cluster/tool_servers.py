"""How Kafka's own tools reach a cluster, in lines that an operator may paste. Must not know which tools there are."""

from __future__ import annotations

from heliograph.cluster.bootstrap_servers import format_servers
from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.security.settings import SecurityProtocol

# An administrator's own client properties: the mirror's would not do, it may not change ACLs or make topics by itself.
ADMIN_PROPERTIES = "admin.properties"


def tool_servers(properties: ClientProperties) -> str:
    """What follows `--bootstrap-server`."""
    servers = format_servers(properties.bootstrap_servers)
    plain = properties.security.protocol is SecurityProtocol.PLAINTEXT
    return servers if plain else f"{servers} --command-config {ADMIN_PROPERTIES}"
