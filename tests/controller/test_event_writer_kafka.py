"""Events on a real target cluster: a run's words can be read there."""

from __future__ import annotations

import os
import socket

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.own_topics import OwnTopics
from heliograph.cluster.properties import parse_properties
from heliograph.controller.event_writer import EventWriter, events_targets
from heliograph.lab.cluster import LabCluster
from heliograph.model.events import Event
from heliograph.model.ledger import EVENTS_TOPIC, unpack
from heliograph.model.outbox import Outbox

from .observed import LINK

pytestmark = pytest.mark.kafka


async def test_what_a_run_tells_is_on_its_target_cluster_in_order(target_cluster: LabCluster) -> None:
    properties = parse_properties({"bootstrap.servers": target_cluster.bootstrap_servers})
    client = ClusterClient("nyc", properties)
    await client.connect()
    try:
        topic = await OwnTopics(client).open(EVENTS_TOPIC)
        before, outbox = await topic.end(), Outbox()
        outbox.tell(Event.ACTIVE, "before the clusters are known")
        writer = EventWriter(events_targets([LINK], lambda _link: client), outbox)
        writer.start()
        outbox.attach(writer)
        for number in range(500):
            outbox.tell(Event.LANE_UP, f"lane {number} is up", link=LINK.name)
        await writer.aclose()

        found, next_offset = [], before
        while next_offset < await topic.end():
            records, next_offset = await topic.read(next_offset)
            found += [unpack(record.value or b"") for record in records]
    finally:
        await client.aclose()
    assert [each["message"] for each in found] == [
        "before the clusters are known",
        *(f"lane {number} is up" for number in range(500)),
    ]
    assert {(each["host"], each["pid"]) for each in found} == {(socket.gethostname(), os.getpid())}
    assert outbox.counts.get(Event.NO_LEDGER) is None
