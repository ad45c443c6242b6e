"""Target topics that were being built when their source topics went: nobody builds them on, and no plan speaks of them.
They hold fillers that consumers see (P6)."""

from __future__ import annotations

from heliograph.cluster.admin import describe_topic_configs
from heliograph.cluster.client import ClusterClient
from heliograph.controller.build_settings import phase_of
from heliograph.controller.recorded import Recorded
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.topic_config import deletion_line
from heliograph.model.errors import ProtocolError, RequestFailed


async def warn_of_half_built(client: ClusterClient, seen: LinkSnapshot, recorded: Recorded) -> list[str]:
    """Of a link that was observed as a whole; by the ledger."""
    link = seen.link.name
    gone = {
        each.target_topic: each.source_topic
        for each in recorded.mirrored(link)
        if each.source_topic not in seen.source_topics
    }
    if not gone:
        return []
    try:
        configs = await describe_topic_configs(client, gone)
    except (RequestFailed, ProtocolError) as problem:
        return [
            f"link {link}: whether topics are half built whose sources are gone is not known: {problem.message}"
        ]
    return [
        half_built(link, source, target, seen.target_servers)
        for target, source in gone.items()
        if target in configs and phase_of(configs[target].own) is not None
    ]


def half_built(link: str, source_topic: str, target_topic: str, target_servers: str) -> str:
    return (
        f"link {link}: target topic {target_topic} is half built, and its source topic {source_topic} is gone: it holds"
        " records without key and value, which consumers see, and it keeps whatever is written to it (hint:"
        f" {deletion_line(target_servers, target_topic)})"
    )
