"""A link: one directed mirror, source cluster to target cluster.

Owns which source topics belong to a link and what they are called on the target. Must not know how a
config file spells it (interface/config) nor what the clusters hold (controller).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.model.claims import Claim
from heliograph.model.config_rules import DEFAULT_RULES, ConfigRules
from heliograph.model.policy import DEFAULT_POLICY, LinkPolicy, OnSourceDelete, TopicPolicy
from heliograph.model.topic_naming import SAME, target_name
from heliograph.model.topic_patterns import matches_any, selects


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """`source` and `target` are names of clusters; `consumer` and `producer` override their properties.

    `policies`: the entries of `topics` in their order with the policy of each; empty when no topic differs from
    `policy`. `create_topics`: whether the mirror creates target topics that are missing; if not, they wait for an
    operator who does. `replication_factor`: of target topics; None: their sources'. `topic_configs`: what target topics
    are set to.
    """

    name: str
    source: str
    target: str
    topics: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    naming: str = SAME
    separator: str = "."
    policy: LinkPolicy = DEFAULT_POLICY
    policies: tuple[TopicPolicy, ...] = ()
    create_topics: bool = True
    replication_factor: int | None = None
    topic_configs: ConfigRules = DEFAULT_RULES
    consumer: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    producer: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def matches(self, topic: str, *, internal: bool = False) -> bool:
        """Whether the link copies this source topic; `internal` is the broker's own flag."""
        return not internal and selects(self.topics, self.exclude, topic)

    @property
    def claim(self) -> Claim:
        """What it copies, and to which names, as other runs are told."""
        return Claim(
            link=self.name,
            topics=self.topics,
            exclude=self.exclude,
            naming=self.naming,
            separator=self.separator,
            source=self.source,
        )

    def policy_of(self, topic: str) -> LinkPolicy:
        """How this source topic is copied: the first entry that matches decides."""
        found = (each.policy for each in self.policies if matches_any((each.match,), topic))
        return next(found, self.policy)

    @property
    def deletes(self) -> bool:
        """Whether target topics are deleted with their source topics, of some topics at least."""
        policies = (self.policy, *(each.policy for each in self.policies))
        return any(each.on_source_delete is OnSourceDelete.DELETE for each in policies)

    @property
    def fingerprint(self) -> str:
        """Of what it copies, and to which names: what runs of the version before compare."""
        return hashlib.sha256(repr(self.claim.selection).encode()).hexdigest()[:16]

    def target_topic(self, topic: str) -> str:
        return target_name(self.naming, separator=self.separator, source=self.source, topic=topic)
