"""Whether a target lets the settings of a topic that is built be changed, and what is said where it does not.

Tried when the topic is there, before anything is filled: else that would show when it is full of fillers. Nothing is
changed here (builds.py does that).
"""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.cluster.admin import alter_topic_configs
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.controller.build_settings import cleaning_changes, last_changes
from heliograph.model.admission import Refused
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.hints import THEN_RESUME_TOPIC
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode


async def try_changes(client: ClusterClient, topic: str, final: Mapping[str, str]) -> Refused | None:
    """`final`: the configs that it is to have in the end. None also where no broker can say."""
    for changes in (cleaning_changes(final), last_changes(final)):
        try:
            await alter_topic_configs(client, topic, changes, validate_only=True)
        except BrokerRefused as refused:
            if not ErrorCode.passes(refused.code):
                return refused_change(client, topic, refused)
        except (RequestFailed, ProtocolError):
            continue
    return None


def refused_change(client: ClusterClient, topic: str, refused: BrokerRefused) -> Refused:
    if ErrorCode.denies(refused.code):
        hint = grant_line(client.properties, Right.ALTER_CONFIGS, Resource.TOPIC, (topic,))
    elif refused.code == ErrorCode.POLICY_VIOLATION:
        hint = "let the cluster (alter.config.policy.class.name) accept it"
    else:
        hint = refused.hint or "see the broker log"
    return Refused(
        reason=StopReason.BUILD,
        message=f"the compacted topic {topic} cannot be built: {refused.message}",
        hint=hint + THEN_RESUME_TOPIC,
    )
