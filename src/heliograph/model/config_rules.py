"""Which configs of a source topic its target topic gets, and whether they are kept in step: one frozen value of a link.

Owns what `topic_configs` means for a config's name. Must not know which configs there are, nor which of them a mirror
cannot do without (controller/topic_config.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.model.topic_patterns import matches_any


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRules:
    """`sync`: whether they are kept in step; a topic is created by these rules in either case. `include`, `exclude`:
    regular expressions on whole names; an empty `include` means all. `values`: those that win over the source's."""

    sync: bool = True
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict, hash=False)

    def takes(self, name: str) -> bool:
        """Whether the source's value of this config is wanted."""
        included = not self.include or matches_any(self.include, name)
        return included and not matches_any(self.exclude, name)


DEFAULT_RULES = ConfigRules()
