"""What somebody sees who looks at two clusters, one of which checks rights: how a missing right shows.

Each look asks as the product does, by its own code. Must not know which right is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from heliograph.cluster.admin import read_broker_configs
from heliograph.cluster.rights import try_deleting_records
from heliograph.cluster.transactions import OpenTransactions
from heliograph.controller.built_groups import warn_of_groups
from heliograph.controller.clusters import Clusters
from heliograph.controller.gap_filling import GapWay
from heliograph.controller.ledger_sight import look_at_ledgers
from heliograph.controller.plan import plan
from heliograph.controller.preflight import preflight_links
from heliograph.controller.status import status_document
from heliograph.model.command import Wish
from heliograph.model.errors import BrokerRefused, CommandRefused
from heliograph.model.partition import TopicPartition
from heliograph.model.partition_filter import EVERY_PARTITION
from heliograph.model.settings import Settings
from heliograph.operations import deciding
from heliograph.operations.aim import Aim, NamedTopic
from heliograph.operations.decision import CommandLine, Decision
from heliograph.operations.event_aim import EventAim
from heliograph.operations.event_clusters import target_clusters
from heliograph.operations.event_reading import EventReader
from heliograph.operations.looking import look_at_link
from heliograph.operations.recording import read_runners, record
from heliograph.wire.error_codes import ErrorCode
from tests.support.plain_mirror import settings_for

from .table import Without

LINK = "link"
_EVERYTHING = EVERY_PARTITION


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Not all is well: how bad it is, and the words for it, hints among them."""

    without: Without
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Bootstrap servers."""

    source: str
    target: str


Look = Callable[[Sides], Awaitable[Seen | None]]


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Clusters]:
    clusters = Clusters(settings)
    try:
        await clusters.connect()
        yield clusters
    finally:
        await clusters.aclose()


def _settings(sides: Sides, topic: str, **link: Any) -> Settings:
    return settings_for(sides.source, sides.target, [topic], **link)


def _less(is_so: bool, words: str) -> Seen | None:
    return Seen(without=Without.LESS, words=words) if is_so else None


# -- what `plan` and `run` see


def preflight(topic: str, **link: Any) -> Look:
    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic, **link)) as clusters:
            found = await preflight_links(clusters.source, clusters.target, await clusters.observe())
        about_rights = [each for each in found if each.right is not None]
        if not about_rights:
            return None
        words = "\n".join(f"{each.message}\n{each.hint}" for each in about_rights)
        return Seen(without=Without(about_rights[0].severity), words=words)

    return look


def gaps(topic: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic)) as clusters:
            (seen,) = await clusters.observe()
        return _less(seen.gaps.way is not GapWay.MARKERS, str(seen.gaps))

    return look


def creation(topic: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic)) as clusters:
            (creating,) = plan(await clusters.observe()).creations
        defaults = {"retention.ms", "cleanup.policy"} & set(creating.shape.configs)
        return _less(bool(defaults), f"set on the new topic: {sorted(defaults)}")

    return look


def commits_on_built_topics(topic: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic)) as clusters:
            (seen,) = await clusters.observe()
            warnings = await warn_of_groups(clusters.target(LINK), seen)
        return _less(not warnings, "no group is named")

    return look


# -- what a driver asks for besides


def deletion(topic: str) -> Look:
    """As controller/first_records.py asks."""

    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic)) as clusters:
            codes = await try_deleting_records(clusters.target(LINK), [topic])
        return _less(ErrorCode.denies(codes[topic]), "nothing may be deleted")

    return look


def cleaner(topic: str) -> Look:
    """As controller/cleaning.py asks."""

    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic)) as clusters:
            target = clusters.target(LINK)
            told: dict[str, str] = {}
            with contextlib.suppress(BrokerRefused):
                node = next(iter(target.metadata.brokers))
                told = await read_broker_configs(target, node, ["log.cleaner.enable"])
        return _less(not told, "brokers do not tell whether they clean")

    return look


def owner_of_open_transaction(topic: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic)) as clusters:
            await clusters.observe()
            found = await OpenTransactions(clusters.source(LINK)).oldest(TopicPartition(topic, 0))
        assert found is not None
        return _less(found.owner is None, f"producer id {found.producer_id}")

    return look


# -- what operators see


def status(topic: str, field: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic)) as clusters:
            surveyed = await clusters.survey()
            document = await status_document(surveyed, clusters, (), datetime.now(UTC))
        ((row,),) = (link["partitions"] for link in document["links"])
        return _less(row[field] is None, f"{field}: {row['error']}")

    return look


def ledger(topic: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic)) as clusters:
            sights = await look_at_ledgers(clusters, await clusters.survey())
        problem = sights[LINK].problem
        return Seen(without=Without.WARNING, words=problem) if problem else None

    return look


def events(topic: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        settings = _settings(sides, topic)
        aim = EventAim(links=settings.links, since=datetime.now(UTC))
        reader = EventReader(target_clusters(settings, settings.links), aim, lambda _: None)
        try:
            await reader.read_past(_nothing)
        except CommandRefused as refused:
            return Seen(without=Without.REFUSED, words=f"{refused.message}\n{refused.hint}")
        finally:
            await reader.aclose()
        return None

    return look


async def _nothing(_events: object) -> None:
    return None


def runners(topic: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        async with connected(_settings(sides, topic)) as clusters:
            source_id = clusters.source(LINK).metadata.cluster_id
            found = await read_runners(clusters.target(LINK), source_id, [topic])
        return Seen(without=Without.WARNING, words=found.problem) if found.problem else None

    return look


# -- what commands of operators end with


async def _decided(sides: Sides, topic: str, wish: Wish) -> tuple[Settings, Decision]:
    settings = _settings(sides, topic)
    aim = Aim(link=settings.links[0], topics=(NamedTopic(name=topic),))
    traced = [topic] if wish is Wish.REMIRROR else []
    seen = await look_at_link(settings, aim.narrowed, datetime.now(UTC), traced=traced, tell=lambda _: None)
    match wish:
        case Wish.PAUSE:
            return settings, deciding.pause(aim, seen, _EVERYTHING)
        case Wish.RESUME:
            line = CommandLine()
            return settings, deciding.resume(aim, seen, _EVERYTHING, accepts_loss=False, line=line)
        case Wish.REMIRROR:
            return settings, deciding.remirror(aim, seen, _EVERYTHING)


def retention_in_pause(topic: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        _, decision = await _decided(sides, topic, Wish.PAUSE)
        shown = [words for draft in decision.drafts for words in draft.shown]
        assert decision.drafts
        return _less(not any("the source keeps records for" in words for words in shown), f"{shown}")

    return look


def shown_of_remirror(topic: str, detail: str) -> Look:
    async def look(sides: Sides) -> Seen | None:
        _, decision = await _decided(sides, topic, Wish.REMIRROR)
        (draft,) = decision.drafts
        return _less(not draft.details[detail], f"{detail}: {draft.details[detail]}")

    return look


def resume(topic: str) -> Look:
    """Recorded every time: no mirror runs, and nothing is known to be stopped."""

    async def look(sides: Sides) -> Seen | None:
        try:
            settings, decision = await _decided(sides, topic, Wish.RESUME)
            done = await record(settings, decision, "ann@desk", datetime.now(UTC), tell=lambda _: None)
        except CommandRefused as refused:
            return Seen(without=Without.REFUSED, words=f"{refused.message}\n{refused.hint}")
        assert done.commands
        return None

    return look
