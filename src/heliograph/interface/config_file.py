"""heliograph.yaml to frozen settings: all problems at once, or none.

Owns the order: YAML, references, properties files, shape, checks, values. Everything inward gets
`model.settings.Settings` and never sees YAML or pydantic.

    text ─▶ parse_yaml ─▶ resolve ─▶ merge_files ─┬▶ check_shape ────┬─▶ Settings, or ConfigError with every problem
                                                  └▶ check_document ─┘
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from heliograph.interface.config.checks import check_document
from heliograph.interface.config.clear_secrets import cautions_about, clear_secrets
from heliograph.interface.config.cluster_files import merge_files
from heliograph.interface.config.cluster_security import weak_clusters, with_absolute_paths
from heliograph.interface.config.location import find_config
from heliograph.interface.config.problems import Place, Problem
from heliograph.interface.config.references import resolve
from heliograph.interface.config.schema import Document, LinkSection, TopicSection
from heliograph.interface.config.shape import check_shape
from heliograph.interface.config.yaml_text import parse_yaml
from heliograph.model.config_rules import ConfigRules
from heliograph.model.errors import ConfigError, UsageError
from heliograph.model.link import Link
from heliograph.model.policy import POLICY_KEYS, LinkPolicy, TopicPolicy
from heliograph.model.settings import Settings, SparkSettings

__all__ = ["find_config", "load_settings", "read_settings"]


def read_settings(path: Path, *, environment: Mapping[str, str] = os.environ) -> Settings:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        hint = "check the path and its permissions"
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        hint = f"save it as UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8 {path} > utf8.yaml"
        raise UsageError(f"cannot read {path}: it is not UTF-8 text", hint=hint) from None
    return load_settings(text, name=str(path), path=path, environment=environment)


def load_settings(
    text: str, *, name: str, path: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Settings:
    """Settings from YAML text; `name` is what errors call the file. `path`: where it is; relative paths in it begin at
    its directory, or at the working directory if it is nowhere."""
    tree = parse_yaml(text, name=name)
    if not isinstance(tree, dict):
        raise ConfigError([f"{name}: expected a mapping with clusters and links"], hint=_hint(name))
    directory = Path.cwd() / path.parent if path is not None else Path.cwd()
    resolved, unresolved = resolve(tree, environment, directory)
    merged = merge_files(resolved, directory)
    document, misshapen = check_shape(merged.tree)
    problems = merged.told(_once_per_place(unresolved, misshapen, check_document(merged.tree)))
    if problems or document is None:
        raise ConfigError([str(problem) for problem in problems], hint=_hint(name))
    settings = with_absolute_paths(_settings(document), directory)
    in_clear = cautions_about(path, list(clear_secrets(tree))) if path is not None else []
    return replace(settings, cautions=(*in_clear, *merged.cautions, *weak_clusters(settings)))


def _once_per_place(*findings: list[Problem]) -> list[Problem]:
    """An earlier finding about a place silences the later ones: they only follow from it."""
    first: dict[Place, list[Problem]] = {}
    for found in findings:
        places = set(first)
        for problem in found:
            if problem.place not in places:
                first.setdefault(problem.place, []).append(problem)
    return [problem for problems in first.values() for problem in problems]


def _hint(name: str) -> str:
    return f"edit {name}; `heliograph config example` shows every key that works"


def _settings(document: Document) -> Settings:
    return Settings(
        clusters=document.clusters,
        links=tuple(_link(name, section) for name, section in document.links.items()),
        lanes=document.lanes,
        lane_memory_bytes=document.lane_memory,
        discovery_interval_s=document.discovery_interval,
        spark=SparkSettings(
            master=document.spark.master, conf=document.spark.conf, python=document.spark.python
        ),
    )


def _link(name: str, section: LinkSection) -> Link:
    policy = LinkPolicy.from_texts(section.model_dump(include=set(POLICY_KEYS)))
    policies = tuple(topic_policy(entry, policy) for entry in section.topics)
    return Link(
        name=name,
        source=section.source,
        target=section.target,
        topics=tuple(each.match for each in policies),
        exclude=tuple(section.exclude),
        naming=section.naming,
        separator=section.separator,
        policy=policy,
        policies=policies if any(each.policy != policy for each in policies) else (),
        create_topics=section.create_topics,
        replication_factor=section.replication_factor,
        topic_configs=ConfigRules(
            sync=section.topic_configs.sync,
            include=tuple(section.topic_configs.include),
            exclude=tuple(section.topic_configs.exclude),
            values=section.topic_configs.set,
        ),
        consumer=section.consumer,
        producer=section.producer,
    )


def topic_policy(entry: str | TopicSection, policy: LinkPolicy) -> TopicPolicy:
    """What the entry does not say is as the link says."""
    if isinstance(entry, str):
        return TopicPolicy(match=entry, policy=policy)
    own = entry.model_dump(exclude={"match"}, exclude_none=True)
    return TopicPolicy(match=entry.match, policy=LinkPolicy.from_texts(policy.texts() | own))
