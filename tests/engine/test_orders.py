"""What driver and lanes say is the same on the other side; all else is a ProtocolError; and no secret shows."""

from __future__ import annotations

import contextlib
import json
import traceback
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heliograph.copier.lane_clusters import LinkClusters
from heliograph.copier.spec import CopySpec
from heliograph.engine.frames import FRAME_LIMIT
from heliograph.engine.orders import (
    ROWS_PER_FRAME,
    Assign,
    Drained,
    GrantAttempts,
    Heartbeat,
    Hello,
    LogLine,
    Occurrences,
    OpenLinks,
    Order,
    Progress,
    Renew,
    Report,
    Revoke,
    Revoked,
    Stop,
    WantsAttempts,
    decode_order,
    decode_report,
    encode,
    portions,
)
from heliograph.model.errors import ProtocolError
from heliograph.model.fill_way import FillWay
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.policy import Isolation, LinkPolicy, OnLoss
from tests.copier.source_batches import PARTITION, spec_of
from tests.model.test_occurrence import occurrences
from tests.model.test_partition_status import statuses, told_by_lanes

LONGEST_TOPIC = "t" * 249
PASSWORD = "correct-horse-battery"  # planted, to be looked for
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{PASSWORD}";'
SECURED = LinkClusters(
    link="sf-to-nyc",
    source="sf",
    target="nyc",
    source_properties={"sasl.jaas.config": JAAS},
    target_properties={"ssl.key.password": PASSWORD},
)

names = st.text(min_size=1, max_size=20)
offsets = st.integers(0, (1 << 63) - 1)
seconds = st.floats(0, 1e9)
pids = st.integers(1, 1 << 22)
partitions = st.builds(MirrorPartition, names, names, names, st.integers(0, 10_000))
attempts = st.lists(st.tuples(partitions, offsets), max_size=3).map(tuple)
specs = st.builds(
    CopySpec,
    partition=partitions,
    source=names,
    target=names,
    target_cluster_id=names,
    producer_id=offsets,
    max_batch_bytes=st.integers(0, 1 << 31),
    policy=st.builds(LinkPolicy),
    gaps_filled=st.booleans(),
    begin_at=st.none() | offsets,
    accepted_loss=st.none() | st.tuples(offsets, offsets),
    fill_way=st.sampled_from(FillWay),
    source_cluster_id=names,
)
properties = st.dictionaries(names, names, max_size=4)
link_clusters = st.builds(
    LinkClusters,
    link=names,
    source=names,
    target=names,
    source_properties=properties,
    target_properties=properties,
)
every_order: dict[type[Order], st.SearchStrategy[Order]] = {
    OpenLinks: st.builds(OpenLinks, links=st.lists(link_clusters, max_size=3).map(tuple)),
    Assign: st.builds(
        Assign, specs=st.lists(specs, max_size=3).map(tuple), clear_in_s=seconds, pid=st.none() | pids
    ),
    GrantAttempts: st.builds(GrantAttempts, attempts=attempts, pid=pids),
    Revoke: st.builds(Revoke, partitions=st.lists(partitions, max_size=3).map(tuple)),
    Renew: st.builds(
        Renew, asked_at=seconds, leases=st.dictionaries(names, seconds, max_size=3), now=seconds
    ),
    Stop: st.builds(Stop),
}
every_report: dict[type[Report], st.SearchStrategy[Report]] = {
    Hello: st.builds(Hello, pid=pids, host=names, versions=properties),
    Heartbeat: st.builds(
        Heartbeat,
        at=seconds,
        pulse=offsets,
        wants=st.lists(names, max_size=3).map(tuple),
        heard=st.none() | st.tuples(seconds, seconds),
    ),
    Progress: st.builds(Progress, rows=st.lists(statuses(told_by_lanes), max_size=3).map(tuple)),
    Occurrences: st.builds(Occurrences, occurrences=st.lists(occurrences, max_size=3).map(tuple)),
    WantsAttempts: st.builds(WantsAttempts, wants=attempts, pid=pids),
    Revoked: st.builds(Revoked, partition=partitions, clean=st.booleans()),
    Drained: st.builds(Drained, clean=st.booleans()),
    LogLine: st.builds(LogLine, level=names, logger=names, words=names),
}
orders = st.one_of(*every_order.values())
reports = st.one_of(*every_report.values())


def decode_either(body: bytes) -> None:
    """As what it says it is; anything but a ProtocolError fails the test."""
    for decode in (decode_order, decode_report):
        with contextlib.suppress(ProtocolError):
            decode(body)


def with_fields(message: Order | Report, **changed: Any) -> bytes:
    return json.dumps({**json.loads(encode(message)), **changed}).encode()


# -- the same on the other side


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(order=orders)
def test_an_order_is_the_same_on_the_other_side(order: Order) -> None:
    assert decode_order(encode(order)) == order


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(report=reports)
def test_a_report_is_the_same_on_the_other_side(report: Report) -> None:
    assert decode_report(encode(report)) == report


def test_no_message_is_left_out_above() -> None:
    assert set(every_order) == set(get_args(Order))
    assert set(every_report) == set(get_args(Report))


def test_what_is_decoded_is_typed_again() -> None:
    policy = LinkPolicy(on_loss=OnLoss.CONTINUE)
    assigned = decode_order(encode(Assign(specs=(replace(spec_of(), policy=policy),))))
    assert isinstance(assigned, Assign)
    (spec,) = assigned.specs
    assert {spec.partition: 1}[PARTITION] == 1
    assert spec.partition.source.topic == PARTITION.source_topic
    assert spec.policy.isolation is Isolation.READ_COMMITTED
    assert spec.policy.on_loss is OnLoss.CONTINUE
    assert spec.fill_way is FillWay.MARKERS


# -- what is none of these


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(message=orders | reports, data=st.data())
def test_a_message_with_any_other_value_in_it_is_read_or_a_protocol_error(
    message: Order | Report, data: st.DataObject
) -> None:
    fields = json.loads(encode(message))
    odd = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=5,
    )
    name = data.draw(st.sampled_from(sorted(fields)))
    decode_either(json.dumps({**fields, name: data.draw(odd)}).encode())
    if isinstance(fields[name], list) and fields[name]:
        decode_either(json.dumps({**fields, name: [data.draw(odd), *fields[name][1:]]}).encode())


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(message=orders | reports, data=st.data())
def test_a_message_without_one_of_its_fields_is_a_protocol_error(
    message: Order | Report, data: st.DataObject
) -> None:
    fields = json.loads(encode(message))
    del fields[data.draw(st.sampled_from(sorted(fields)))]
    decode = decode_order if isinstance(message, get_args(Order)) else decode_report
    with pytest.raises(ProtocolError):
        decode(json.dumps(fields).encode())


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(body=st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_protocol_error(body: bytes) -> None:
    decode_either(body)


@pytest.mark.parametrize("kind", ["something of a later release", "", None, 7, ["stop"], {"type": "stop"}])
def test_a_message_of_an_unknown_type_is_a_protocol_error(kind: object) -> None:
    for decode in (decode_order, decode_report):
        with pytest.raises(ProtocolError, match="unknown type"):
            decode(json.dumps({"type": kind}).encode())


def test_a_lane_gives_no_orders_and_a_driver_no_reports() -> None:
    with pytest.raises(ProtocolError, match="unknown type"):
        decode_order(encode(Drained(clean=True)))
    with pytest.raises(ProtocolError, match="unknown type"):
        decode_report(encode(Stop()))


@pytest.mark.parametrize("clean", ["false", 0, 1, None, []])
def test_clean_is_yes_or_no_and_nothing_that_counts_as_either(clean: object) -> None:
    """Whoever takes a partition over waits, or not, by this word."""
    for report in (Revoked(partition=PARTITION, clean=True), Drained(clean=True)):
        with pytest.raises(ProtocolError, match="malformed"):
            decode_report(with_fields(report, clean=clean))


def test_a_spec_of_another_release_is_a_protocol_error() -> None:
    (spec,) = json.loads(encode(Assign(specs=(spec_of(),))))["specs"]
    less = {name: value for name, value in spec.items() if name != "margin_ms"}
    for other in ({**spec, "of_a_later_release": 1}, less):
        with pytest.raises(ProtocolError, match="malformed"):
            decode_order(with_fields(Assign(specs=()), specs=[other]))


def test_a_hello_of_a_lane_that_says_more_is_read() -> None:
    """Its versions must be known, whatever else differs."""
    hello = Hello(pid=1, host="there", versions={"heliograph": "9.9"})
    assert decode_report(with_fields(hello, of_a_later_release=1)) == hello


# -- how much


def test_ten_thousand_partitions_with_the_longest_names_fit_the_line() -> None:
    keys = [MirrorPartition("sf-to-nyc", LONGEST_TOPIC, LONGEST_TOPIC, number) for number in range(10_000)]
    given_specs = list(portions([spec_of(key) for key in keys]))
    assert len(given_specs) == 10_000 // ROWS_PER_FRAME
    assert [spec.partition for portion in given_specs for spec in portion] == keys
    error = "x" * 2_000
    messages: list[Order | Report] = [
        *(Assign(specs=portion) for portion in given_specs),
        *(Revoke(partitions=portion) for portion in portions(keys)),
        *(GrantAttempts(attempts=portion, pid=1) for portion in portions([(key, 1) for key in keys])),
        *(
            Progress(rows=portion)
            for portion in portions([PartitionStatus(key, error=error, hint=error) for key in keys])
        ),
    ]
    assert all(len(encode(message)) <= FRAME_LIMIT for message in messages)


def test_nothing_is_no_portion() -> None:
    assert list(portions([])) == []


# -- secrets


def test_properties_of_clusters_are_in_no_text_of_an_order() -> None:
    order = OpenLinks(links=(SECURED,))
    assert PASSWORD.encode() in encode(order)
    for text in (repr(order), str(order), f"{order}", repr(order.links), str(SECURED)):
        assert PASSWORD not in text
        assert "jaas" not in text


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body[:-1],
        lambda body: body.replace(b'"links":', b'"lines":'),
        lambda body: body.replace(b'"source_properties":{', b'"source_properties":{"x":1,'),
        lambda body: body.replace(b'"type":"links"', b'"type":"assign"'),
        lambda _: with_fields(Renew(asked_at=0, leases={}, now=0), leases={"sf-to-nyc": PASSWORD}),
    ],
)
def test_an_order_that_cannot_be_read_shows_nothing_of_what_is_in_it(damage: Any) -> None:
    body = encode(OpenLinks(links=(SECURED,)))
    assert damage(body) != body
    with pytest.raises(ProtocolError) as caught:
        decode_order(damage(body))
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
