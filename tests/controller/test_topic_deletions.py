"""Target topics whose source topics are gone are deleted by their ids, once every guard is met; else they are kept."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.metadata import ClusterMetadata
from heliograph.cluster.properties import parse_properties
from heliograph.cluster.topic_witnesses import Witness
from heliograph.controller import deletion_guards, half_built, making, topic_deletions
from heliograph.controller.active_link import ActiveLink
from heliograph.controller.configs_in_step import ConfigsInStep
from heliograph.controller.configs_told import ConfigsTold
from heliograph.controller.plan import DeleteTopic, plan
from heliograph.controller.plan_told import PlanTold
from heliograph.controller.topic_deletions import TopicDeletions
from heliograph.model.command import Wish
from heliograph.model.errors import (
    BrokerRefused,
    Disconnected,
    HeliographError,
    RequestFailed,
    RequestTimedOut,
)
from heliograph.model.events import Event
from heliograph.model.ledger import RowKind
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import DEFAULT_POLICY, LinkPolicy, OnSourceDelete
from heliograph.model.producer_id import producer_id
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

from .command_scene import NAME, SECOND, SOURCE_TOPIC_ID, PlayedTopic, Scene
from .observed import LINK, SF_ID, metadata_of, no_configs, snapshot, source_sight
from .played import ELECTED, order
from .source_fake import Source

OURS = producer_id(SF_ID, "orders")
NO_ID, NO_NAME = int(ErrorCode.UNKNOWN_TOPIC_ID), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
DELETING = replace(DEFAULT_POLICY, on_source_delete=OnSourceDelete.DELETE)


class GoneSource(Source):
    async def refresh(self) -> None:
        await asyncio.sleep(0)


class Played(PlayedTopic):
    """`orders`, which the mirror creates, and what else is there: `others` at the source alone, `leftovers` on the
    target alone, by their ids. What brokers of the source say, and who wrote the target's last batches."""

    def __init__(self, policy: LinkPolicy) -> None:
        super().__init__([source_sight(0, 5)] * 2)
        self.topic_id = ""
        self.played_link = replace(LINK, topics=("orders", "t.*"), policy=policy)
        self.others: dict[str, str] = {}
        self.leftovers: dict[str, str] = {}
        self.by_id, self.by_name = NO_ID, NO_NAME
        self.cluster_id = SF_ID
        self.asked: list[Mapping[str, str]] = []
        self.ask_fails: list[HeliographError] = []
        self.writers: dict[int, int | HeliographError | None] = {0: OURS, 1: None}
        self.reads = 0
        self.target_error = 0

    def link(self, _name: str) -> Any:
        return self.played_link

    def source(self, link: str) -> ClusterClient:  # noqa: ARG002
        return cast(ClusterClient, GoneSource(led=False))

    def target(self, link: str) -> ClusterClient:  # noqa: ARG002
        async def read_metadata(names: Collection[str]) -> ClusterMetadata:
            await asyncio.sleep(0)
            seen = self._target.only(names)
            topics = {
                name: replace(each, error=self.target_error or each.error)
                for name, each in seen.topics.items()
            }
            return replace(seen, topics=topics)

        async def refresh() -> None:
            await asyncio.sleep(0)

        client = SimpleNamespace(
            name="nyc",
            read_metadata=read_metadata,
            refresh=refresh,
            follow=lambda _topics: None,
            properties=parse_properties({"bootstrap.servers": "nyc:9092"}),
        )
        return cast(ClusterClient, client)

    @property
    def _target(self) -> ClusterMetadata:
        there = {"orders": self.topic_id} if self.topic_id else {}
        return with_ids(there | self.leftovers)

    async def topics(self, _name: str) -> tuple[ClusterMetadata, ClusterMetadata]:
        await asyncio.sleep(0)
        self.looked += 1
        there = {"orders": self.source_topic_id} if self.has_source else {}
        return with_ids(there | self.others), self._target

    async def ask(
        self, _client: ClusterClient, topics: Mapping[str, str], _first: Collection[int]
    ) -> tuple[Witness, ...]:
        await asyncio.sleep(0)
        if self.ask_fails:
            raise self.ask_fails.pop(0)
        self.asked.append(topics)
        honest = {"cluster_id": SF_ID, "brokers": 2}
        doubtful = {"cluster_id": self.cluster_id, "brokers": 2}
        by_id, by_name = dict.fromkeys(topics.values(), NO_ID), dict.fromkeys(topics, NO_NAME)
        return (
            Witness(node=1, by_id=by_id, by_name=by_name, **honest),  # type: ignore[arg-type]
            Witness(
                node=2,
                by_id=dict.fromkeys(topics.values(), self.by_id),
                by_name=dict.fromkeys(topics, self.by_name),
                **doubtful,  # type: ignore[arg-type]
            ),
        )

    async def read_writer(self, _client: ClusterClient, where: TopicPartition) -> int | None:
        await asyncio.sleep(0)
        self.reads += 1
        writer = self.writers[where.partition]
        if isinstance(writer, HeliographError):
            raise writer
        return producer_id(SF_ID, where.topic) if writer == OURS else writer

    async def delete(self, client: ClusterClient, topic_id: str) -> None:
        await super().delete(client, topic_id)
        self.leftovers = {name: each for name, each in self.leftovers.items() if each != topic_id}


def with_ids(topics: Mapping[str, str]) -> ClusterMetadata:
    seen = metadata_of(dict.fromkeys(topics, 2))
    return replace(
        seen, topics={name: replace(each, topic_id=topics[name]) for name, each in seen.topics.items()}
    )


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_built, "describe_topic_configs", no_configs)
    monkeypatch.setattr(deletion_guards, "UNKNOWN_FOR_S", 0.05)
    monkeypatch.setattr(topic_deletions, "LOOK_S", 0.005)
    monkeypatch.setattr(topic_deletions, "AGAIN_S", 0.02)


class Story(Scene):
    """`async with` it: `orders` is mirrored, and the link followed."""

    def __init__(self, policy: LinkPolicy = DELETING, played: Played | None = None) -> None:
        self.played = played or Played(policy)
        super().__init__(topic=self.played)
        self.active = ActiveLink(
            NAME,
            self.topic.made,
            self.roles,
            self.board,
            self.restart,
            self.builds,
            self.turns,
            PlanTold(self.outbox),
            self.outbox,
            self.commands.look_again,
            ConfigsInStep(
                NAME,
                self.topic.made,
                self.roles,
                self.board,
                self.turns,
                ConfigsTold(self.outbox),
                interval_s=60.0,
                alter=self.topic.alter,
            ),
            interval_s=0.005,
            make_deletions=partial(
                TopicDeletions,
                ask=self.played.ask,
                read_writer=self.played.read_writer,
                delete=self.played.delete,
            ),
        )

    async def looks(self, count: int = 5) -> None:
        """That many more questions to the source, or looks at it, are over."""
        asked, looked = len(self.played.asked), self.played.looked
        await self.until(
            lambda: len(self.played.asked) > asked + count or self.played.looked > looked + 10 * count
        )

    def told(self, code: Event) -> list[str]:
        return [each.message for each in self.outbox.last if each.code is code]

    async def leave(self, names: Collection[str]) -> None:
        """As if these had been mirrored, and were gone at the source."""
        for name in names:
            row = self.ledger.of_topic(name, name, f"source id of {name}", created=True)
            fields = {**(row.fields or {}), "target_topic_id": f"id of {name}"}
            await self.ledger.ledger.write([replace(row, fields=fields)])
            self.played.leftovers[name] = f"id of {name}"


@contextlib.asynccontextmanager
async def following(monkeypatch: pytest.MonkeyPatch, story: Story) -> AsyncIterator[Story]:
    monkeypatch.setattr(making, "create", story.topic.create)
    async with story:
        story.active.start()
        try:
            yield story
        finally:
            await story.active.aclose()


@contextlib.asynccontextmanager
async def gone(monkeypatch: pytest.MonkeyPatch, story: Story) -> AsyncIterator[Story]:
    """Its partitions are let go."""
    async with following(monkeypatch, story):
        await story.until(lambda: len(story.lanes.held) == 2)
        story.topic.has_source = False
        await story.until(lambda: not story.board.rows)
        yield story


async def kept(story: Story) -> None:
    await story.looks()
    await asyncio.sleep(0.15)
    assert story.topic.topic_id == SECOND
    assert story.topic.steps == ["created"]


async def test_a_topic_that_is_gone_for_certain_is_deleted_by_its_id_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with gone(monkeypatch, Story()) as story:
        assert story.ledger.recorded.created("orders", SECOND)
        assert "is deleted, too, once that is certain" in story.told(Event.TOPIC_GONE)[0]
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)
        assert story.topic.steps == ["created", f"deleted {SECOND}"]
        await story.until(lambda: not story.ledger.recorded.rows_of("orders"))
        assert story.outbox.counts[Event.TOPIC_DELETED] == 1
        assert all(each == {"orders": SOURCE_TOPIC_ID} for each in story.played.asked)
        assert not story.active._deletions.pending


async def test_a_topic_of_that_name_that_comes_later_is_mirrored_as_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with gone(monkeypatch, Story()) as story:
        await story.until(lambda: not story.ledger.recorded.rows_of("orders"))
        story.topic.source_topic_id, story.topic.has_source = "id of a later one", True
        await story.until(lambda: len(story.lanes.held) == 2)
        assert story.topic.steps[-1] == "created"
        assert story.ledger.recorded.is_topic("orders", "id of a later one", story.topic.topic_id)
        assert not any("was deleted since" in each for each in story.told(Event.TOPIC_CREATED))


async def test_with_keep_it_stays_and_that_is_written_down_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(DEFAULT_POLICY)
    async with gone(monkeypatch, Story(played=played)) as story:
        assert "keeps what was copied" in story.told(Event.TOPIC_GONE)[0]
        await story.until(lambda: story.ledger.recorded.mirrored(NAME)[0].kept)
        assert story.played.asked == []
    played.played_link = replace(played.played_link, policy=DELETING)
    async with following(monkeypatch, Story(played=played)) as story:
        await kept(story)
        assert Event.DELETION_HELD not in story.outbox.counts


async def test_a_run_that_takes_over_finds_what_is_to_be_deleted_and_waits_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played(DELETING)
    async with gone(monkeypatch, Story(played=played)) as story:
        pass
    assert played.topic_id == SECOND
    asked = len(played.asked)
    async with following(monkeypatch, Story(played=played)) as story:
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)
        assert len(played.asked) - asked > 2
        assert Event.TOPIC_GONE not in story.outbox.counts


async def test_it_is_not_deleted_before_it_was_unknown_for_long_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletion_guards, "UNKNOWN_FOR_S", 60.0)
    async with gone(monkeypatch, Story()) as story:
        await kept(story)
        assert story.played.reads == 0
        assert Event.DELETION_HELD not in story.outbox.counts


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"by_id": 0}, "broker 2 of the source does not say that it is gone"),
        ({"by_id": DENIED}, "does not say that it is gone (TOPIC_AUTHORIZATION_FAILED)"),
        ({"by_name": DENIED}, "may not see topic orders at the source any more"),
        ({"by_name": 0}, "broker 2 of the source has a topic of that name"),
        ({"cluster_id": "another"}, "broker 2 is of cluster another"),
        ({"writers": {0: OURS, 1: 7}}, "the last batch of partition 1 is not the mirror's (producer id 7)"),
        ({"writers": {0: OURS, 1: RequestFailed("busy")}}, "busy"),
        ({"target_error": DENIED}, "topic orders cannot be seen on cluster 'nyc'"),
    ],
)
async def test_a_doubt_of_one_broker_or_of_one_partition_keeps_it_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], words: str
) -> None:
    story = Story()
    honest = {name: getattr(story.played, name) for name in changed}
    for name, value in changed.items():
        setattr(story.played, name, value)
    async with gone(monkeypatch, story):
        await story.until(lambda: Event.DELETION_HELD in story.outbox.counts)
        await kept(story)
        assert story.outbox.counts[Event.DELETION_HELD] == 1
        (told,) = story.told(Event.DELETION_HELD)
        assert words in told
        assert "topic orders stays, although cluster 'sf' has no topic orders any more" in told
        for name, value in honest.items():
            setattr(story.played, name, value)
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)


async def test_who_may_not_see_the_name_any_more_is_given_the_line_that_mends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    story.played.by_name = DENIED
    async with gone(monkeypatch, story):
        await story.until(lambda: Event.DELETION_HELD in story.outbox.counts)
        (hint,) = [each.hint for each in story.outbox.last if each.code is Event.DELETION_HELD]
        assert "--operation Describe --topic orders" in (hint or "")


async def test_any_sighting_begins_the_wait_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_guards, "UNKNOWN_FOR_S", 0.2)
    async with gone(monkeypatch, Story()) as story:
        for _ in range(4):
            await asyncio.sleep(0.1)
            story.played.by_id = 0
            await story.looks(2)
            story.played.by_id = NO_ID
        assert story.topic.steps == ["created"]
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)


async def test_a_topic_that_the_mirror_did_not_create_is_kept_and_told_by_who_has_let_it_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played(DELETING)
    played.topic_id = SECOND  # it was there
    async with gone(monkeypatch, Story(played=played)) as story:
        await story.until(lambda: Event.DELETION_HELD in story.outbox.counts)
        assert "that the mirror has created it is not written down" in story.told(Event.DELETION_HELD)[0]
        await asyncio.sleep(0.1)
    async with following(monkeypatch, Story(played=played)) as story:
        await asyncio.sleep(0.1)
        assert Event.DELETION_HELD not in story.outbox.counts
    assert played.asked == []
    assert played.steps == []


async def test_another_topic_of_its_name_on_the_target_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    async with following(monkeypatch, story):
        await story.until(lambda: len(story.lanes.held) == 2)
        story.topic.has_source, story.topic.topic_id = False, "id of somebody's"
        await story.until(lambda: Event.DELETION_HELD in story.outbox.counts)
        assert "it is another topic by now" in story.told(Event.DELETION_HELD)[0]
        assert story.topic.steps == ["created"]


@pytest.mark.parametrize(
    ("stops", "words"), [(True, "partition 1 is stopped (foreign)"), (False, "partition 1 is paused")]
)
async def test_a_topic_of_which_a_partition_is_stopped_or_paused_is_kept(
    monkeypatch: pytest.MonkeyPatch, stops: bool, words: str
) -> None:
    async with following(monkeypatch, Story()) as story:
        await story.until(lambda: len(story.lanes.held) == 2)
        if stops:
            await story.stop(1)
        else:
            await story.wished(Wish.PAUSE, 1, target_topic_id=SECOND)
        story.topic.has_source = False
        await story.until(lambda: Event.DELETION_HELD in story.outbox.counts)
        assert words in story.told(Event.DELETION_HELD)[0]
        assert story.played.asked == []
        assert story.topic.steps == ["created"]


async def test_a_stop_because_the_source_topic_is_gone_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(monkeypatch, Story()) as story:
        await story.until(lambda: len(story.lanes.held) == 2)
        await story.stop(1, StopReason.RECREATED)
        story.topic.has_source = False
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)


async def test_many_topics_that_are_gone_at_once_are_all_kept_until_there_are_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    story.played.others = {f"there-{number}": "id" for number in range(200)}
    async with following(monkeypatch, story):
        await story.leave([f"t{number}" for number in range(11)])
        await story.until(lambda: Event.DELETION_HELD in story.outbox.counts)
        await asyncio.sleep(0.15)
        assert story.outbox.counts[Event.DELETION_HELD] == 1
        (told,) = (each for each in story.outbox.last if each.code is Event.DELETION_HELD)
        assert "no topic is deleted until there are fewer: 11 of 212 topics of the link" in told.message
        assert "set on_source_delete: keep for link sf-to-nyc" in (told.hint or "")
        assert "kafka-topics.sh --bootstrap-server nyc:9092 --delete --topic t0" in (told.hint or "")
        assert story.played.asked == []
        await story.leave(["t11"])
        await story.until(lambda: story.outbox.counts[Event.DELETION_HELD] == 2)
        del story.played.leftovers["t0"], story.played.leftovers["t1"]  # by hand
        await story.until(lambda: not any(name.startswith("t") for name in story.played.leftovers))
        deleted = {step.removeprefix("deleted id of ") for step in story.topic.steps if "deleted" in step}
        assert deleted == {f"t{number}" for number in range(2, 12)}
        recorded = story.ledger.recorded
        await story.until(lambda: [each.source_topic for each in recorded.mirrored(NAME)] == ["orders"])


async def test_two_topics_of_a_small_link_are_too_many_and_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with following(monkeypatch, Story()) as story:
        await story.leave(["t0", "t1"])
        await story.until(lambda: Event.DELETION_HELD in story.outbox.counts)
        assert "2 of 3 topics of the link are gone at once" in story.told(Event.DELETION_HELD)[0]
        del story.played.leftovers["t0"]
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)
        assert story.topic.steps == ["created", "deleted id of t1"]


async def test_nothing_is_deleted_without_a_lease_and_all_that_is_left_goes_on_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with gone(monkeypatch, Story()) as story:
        story.drivership.granted = {NAME: 0.0}
        await kept(story)
        story.drivership.granted = {NAME: 5.0}
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)


async def test_a_topic_that_another_run_holds_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(monkeypatch, Story()) as story:
        await story.leave(["t0"])
        await story.until(lambda: story.active._deletions.pending)
        term = replace(ELECTED, claims=order("b", topics="t0"))
        assert term.held_by(NAME, "t0") is not None
        story.roles._terms[NAME] = term
        assert not story.roles.holds_topic(NAME, "t0")
        assert story.roles.holds_topic(NAME, "orders")
        await asyncio.sleep(0.15)
        assert story.topic.steps == ["created"]


async def test_a_topic_that_somebody_works_on_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gone(monkeypatch, Story()) as story:
        async with story.turns.alone(NAME, ["orders"]):
            await asyncio.sleep(0.15)
            assert story.topic.steps == ["created"]
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (DENIED, "--operation Delete --topic orders"),
        (ErrorCode.TOPIC_DELETION_DISABLED, "set delete.topic.enable=true on the target's brokers"),
    ],
)
async def test_a_target_that_refuses_is_told_once_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, code: int, hint: str
) -> None:
    story = Story()
    async with gone(monkeypatch, story):
        story.topic.fails = [BrokerRefused("no", code=code) for _ in range(3)]
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)
        assert story.outbox.counts[Event.DELETION_HELD] == 1
        (told,) = (each for each in story.outbox.last if each.code is Event.DELETION_HELD)
        assert hint in (told.hint or "")


async def test_a_source_that_cannot_be_asked_is_told_once_and_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    story.played.ask_fails = [Disconnected("broker 1 is gone") for _ in range(3)]
    async with gone(monkeypatch, story):
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)
        assert story.told(Event.DELETION_HELD) == [
            "link sf-to-nyc: topics that are gone at the source stay for now: broker 1 is gone"
        ]


async def test_a_deletion_whose_answer_was_lost_is_told_when_the_topic_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    real = story.played.delete

    async def lost(client: ClusterClient, topic_id: str) -> None:
        await real(client, topic_id)
        raise RequestTimedOut("no answer")

    story.active._deletions._delete_topic = lost
    async with gone(monkeypatch, story):
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)
        await story.until(lambda: not story.ledger.recorded.rows_of("orders"))
        assert story.topic.steps == ["created", f"deleted {SECOND}"]
        assert story.outbox.counts[Event.TOPIC_DELETED] == 1


async def test_each_of_several_topics_is_deleted_after_a_word_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    story.played.others = {f"there-{number}": "id" for number in range(60)}
    async with following(monkeypatch, story):
        await story.leave(["t0", "t1", "t2"])
        words: list[int] = []
        real = story.played.delete

        async def delete(client: ClusterClient, topic_id: str) -> None:
            words.append(len(story.played.asked))
            await real(client, topic_id)

        story.active._deletions._delete_topic = delete
        await story.until(lambda: story.outbox.counts.get(Event.TOPIC_DELETED) == 3)
        assert len(set(words)) == 3


async def test_what_could_not_be_forgotten_is_forgotten_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gone(monkeypatch, Story()) as story:
        real, fails = story.ledger.ledger.write, [RequestFailed("not now")]

        async def write(rows: Any) -> None:
            if rows and fails and rows[-1].name.kind is RowKind.TOPIC and rows[-1].fields is None:
                raise fails.pop()
            await real(rows)

        monkeypatch.setattr(story.ledger.ledger, "write", write)
        await story.until(lambda: Event.TOPIC_DELETED in story.outbox.counts)
        await story.until(lambda: not story.ledger.recorded.rows_of("orders"))
        assert fails == []
        assert story.outbox.counts[Event.TOPIC_DELETED] == 1


async def test_a_run_that_is_stopped_deletes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gone(monkeypatch, Story()) as story:
        story.active.stop()
        await asyncio.sleep(0.15)
        assert story.topic.steps == ["created"]


async def test_a_plan_shows_what_is_to_be_deleted_and_nothing_that_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletion_guards, "UNKNOWN_FOR_S", 60.0)
    async with following(monkeypatch, Story()) as story:
        await story.leave(["t0"])
        await story.ledger.write([story.ledger.of_topic("t-by-hand", "t-by-hand", "source id")])
        ids = {"orders": SECOND, "t0": "id of t0", "t-by-hand": SECOND}

        def planned(*names: str, target_ids: Mapping[str, str] = ids) -> tuple[DeleteTopic, ...]:
            seen = snapshot(link=story.played.played_link)
            seen = replace(seen, source_topics=dict.fromkeys(names, 1), target_topic_ids=target_ids)
            return plan([seen], recorded_of=lambda _seen: story.ledger.recorded).deletions

        (one,) = planned("orders")
        assert (one.topic, one.topic_id, one.source_topic, one.held) == ("t0", "id of t0", "t0", False)
        assert one.why == (
            "cluster 'sf' has no topic t0 any more: deleted when two brokers have not known it for 60 s"
        )
        two = planned()
        assert [(each.topic, each.held) for each in two] == [("orders", True), ("t0", True)]
        assert "2 of 2 topics of the link are gone at once" in two[0].why
        assert planned("orders", "t0") == ()
        assert planned("orders", target_ids={"orders": SECOND, "t0": "id of another"}) == ()
        assert planned("orders", target_ids={"orders": SECOND}) == ()
