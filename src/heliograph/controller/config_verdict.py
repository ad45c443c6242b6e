"""What is to be done about a target topic's configs: changed, or kept as an operator has set them. Pure.

For each config the first row that fits. *wanted*: what `wanted_configs` says, the rule by which topics are created;
*ours*: the mirror has set it (followed_configs.py).

    wanted                            the target has          then
    the same                                                  in step: from now on it is ours
    max.message.bytes, less           more in force           nothing: what is not copied yet may need it
    a default of the source's         the same in force       nothing
    min.insync.replicas, a default    nothing set             nothing
    a value that it does not know     nothing                 told (`unknown`)
    a value, or nothing               ours, or nothing set    changed
    nothing                           another value           nothing: an operator has added it. Of what is carried
                                                              (retention, cleanup) only if the same is in force
    a value                           another value           kept, and told (`drift`)

Never looked at: what a mirror needs, what is each cluster's own, and what the link leaves out (`topic_configs`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from heliograph.cluster.admin import TopicConfig
from heliograph.controller.build_settings import phase_of
from heliograph.controller.followed_configs import Followed
from heliograph.controller.topic_config import (
    CARRIED,
    IN_SYNC,
    LARGEST_BATCH,
    NEEDED,
    is_taken,
    wanted_configs,
)
from heliograph.model.config_rules import ConfigRules


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFacts:
    """One topic on both sides. `replicas`: of the target topic, 0: not known. `target_defaults`: of the target's
    brokers; what is not in it is not known."""

    source: TopicConfig
    target: TopicConfig
    replicas: int
    target_defaults: Mapping[str, str]
    followed: Followed


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Values that differ; None: nothing is set, and nothing in force is known."""

    source: str | None
    target: str | None

    def __str__(self) -> str:
        return f"{config_shown(self.target)} (source: {config_shown(self.source)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigVerdict:
    """`changes`: to these values, None: unset; `before`: from these. `drift`: what an operator has set, and is kept.
    `unknown`: what the target's brokers do not know. `followed`: what is to be written down of those in step."""

    changes: Mapping[str, str | None]
    before: Mapping[str, str | None]
    drift: Mapping[str, Drift]
    unknown: Mapping[str, str]
    followed: Followed


class _Row(Enum):
    IN_STEP = auto()
    LEFT = auto()
    UNKNOWN = auto()
    CHANGED = auto()
    DRIFT = auto()


def judge_configs(facts: ConfigFacts, rules: ConfigRules) -> ConfigVerdict | None:
    """None: they are left alone. Nobody wants them to be in step, they cannot be read, or one of the two topics is
    being built: its settings tell how far that is."""
    source, target = facts.source, facts.target
    unread = source.problem is not None or target.problem is not None or target.untold
    if not rules.sync or unread or phase_of(source.own) is not None or phase_of(target.own) is not None:
        return None
    wanted = _wanted(facts, rules)
    rows = {name: _row(name, facts, rules, wanted.get(name)) for name in _names(facts, rules, wanted)}

    def of(row: _Row) -> list[str]:
        return sorted(name for name, each in rows.items() if each is row)

    return ConfigVerdict(
        changes={name: wanted.get(name) for name in of(_Row.CHANGED)},
        before={name: target.own.get(name) for name in of(_Row.CHANGED)},
        drift={name: _drift(name, facts, wanted.get(name)) for name in of(_Row.DRIFT)},
        unknown={name: wanted[name] for name in of(_Row.UNKNOWN)},
        followed=_followed(facts, of(_Row.IN_STEP)),
    )


def _wanted(facts: ConfigFacts, rules: ConfigRules) -> Mapping[str, str]:
    """Of a source that does not tell its configs, what the link itself says."""
    if facts.source.untold:
        return rules.values
    return wanted_configs(
        own=facts.source.own,
        effective=facts.source.effective,
        target_defaults=facts.target_defaults,
        replicas=max(facts.replicas, 1),
        rules=rules,
    )


def _names(facts: ConfigFacts, rules: ConfigRules, wanted: Mapping[str, str]) -> Collection[str]:
    if facts.source.untold:
        return wanted.keys() - NEEDED
    known = facts.followed.values.keys() | facts.followed.setting.keys()

    def is_followed(name: str) -> bool:
        return name in rules.values or ((is_taken(name) or name in known) and rules.takes(name))

    unjudged = NEEDED if facts.replicas else NEEDED | {IN_SYNC}
    names = wanted.keys() | facts.target.own.keys() | known
    return {name for name in names - unjudged if is_followed(name)}


def _row(name: str, facts: ConfigFacts, rules: ConfigRules, wanted: str | None) -> _Row:
    there, in_force = facts.target.own.get(name), facts.target.effective.get(name)
    is_default = name not in facts.source.own and name not in rules.values
    if there == wanted:
        return _Row.IN_STEP
    if wanted is not None:
        if name == LARGEST_BATCH and in_force is not None and int(in_force) >= int(wanted):
            return _Row.LEFT
        if is_default and (in_force == wanted or (there is None and name == IN_SYNC)):
            return _Row.LEFT
        if in_force is None:
            return _Row.UNKNOWN
    if there is None or facts.followed.is_ours(name, there):
        return _Row.CHANGED
    if wanted is None and (name not in CARRIED or in_force == facts.source.effective.get(name)):
        return _Row.LEFT
    return _Row.DRIFT


def _drift(name: str, facts: ConfigFacts, wanted: str | None) -> Drift:
    at_source = facts.source.effective.get(name) if wanted is None else wanted
    return Drift(source=at_source, target=facts.target.own.get(name))


def _followed(facts: ConfigFacts, in_step: Collection[str]) -> Followed:
    """What is in step is the mirror's from now on; of everything else stays written what was."""
    was, own = facts.followed, facts.target.own
    kept = {name: value for name, value in was.values.items() if name not in in_step}
    return Followed(
        values=kept | {name: own[name] for name in in_step if name in own},
        setting={name: tried for name, tried in was.setting.items() if name not in in_step},
    )


def config_shown(value: str | None) -> str:
    """For people."""
    return "not set" if value is None else value or "empty"
