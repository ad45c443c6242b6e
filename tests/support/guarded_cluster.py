"""A cluster of one broker that checks rights: clients have those that a test gives them, and no others.

Owns who is who there, and ACLs. Brokers, and the test when it gives rights, come by a listener with SASL as a super
user. Must not know what a mirror needs.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from heliograph.cluster.grants import Resource, Right
from heliograph.lab.cluster import LabCluster
from heliograph.lab.listeners import Listener, Sasl
from heliograph.lab.settings import LOOPBACK

TIMEOUT_S = 20.0
POLL_S = 0.01
US, BROKERS = "User:ANONYMOUS", "User:broker"
CLUSTER = "kafka-cluster"
_PASSWORD = "of-the-lab"
_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' username="broker" password="{_PASSWORD}" user_broker="{_PASSWORD}";'
)
# Brokers speak to the controller as a super user; whoever comes in plain text is nobody.
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": BROKERS,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": _JAAS,
}
_KINDS = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.CLUSTER: ResourceType.BROKER,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    right: Right
    resource: Resource
    name: str = CLUSTER
    prefixed: bool = False
    user: str = US


def grants(resource: Resource, name: str, *rights: Right, prefixed: bool = False) -> frozenset[Grant]:
    return frozenset(Grant(right=right, resource=resource, name=name, prefixed=prefixed) for right in rights)


def on_topic(name: str, *rights: Right, prefixed: bool = False) -> frozenset[Grant]:
    return grants(Resource.TOPIC, name, *rights, prefixed=prefixed)


def on_cluster(*rights: Right) -> frozenset[Grant]:
    return grants(Resource.CLUSTER, CLUSTER, *rights)


def pasted(text: str) -> frozenset[Grant]:
    """What is granted by who pastes the lines of kafka-acls.sh in a hint into a shell."""
    lines = [
        "kafka-acls.sh" + each for line in text.splitlines() for each in line.split("kafka-acls.sh")[1:2]
    ]
    return frozenset(grant for line in lines for grant in _granted_by(line))


def _granted_by(line: str) -> Iterator[Grant]:
    words = shlex.split(line, comments=True)
    assert "--add" in words
    prefixed = words[-2:] == ["--resource-pattern-type", "prefixed"]
    pairs = list(pairwise(words))
    (user,) = (word for option, word in pairs if option == "--allow-principal")
    rights = [right for right in Right for pair in pairs if pair == ("--operation", right.operation)]
    named = [(resource, name) for resource in Resource for option, name in pairs if option == f"--{resource}"]
    for right in rights:
        for resource, name in named or [(Resource.CLUSTER, CLUSTER)]:
            yield Grant(right=right, resource=resource, name=name, prefixed=prefixed, user=user)


class Guarded:
    """`only` and `allow` return when the broker goes by it."""

    def __init__(self, cluster: LabCluster) -> None:
        self.cluster = cluster
        self.bootstrap_servers = cluster.bootstrap_servers
        self._admin = AdminClient(
            {
                "bootstrap.servers": cluster.servers("BROKERS"),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "broker",
                "sasl.password": _PASSWORD,
            }
        )
        self._granted: frozenset[AclBinding] = frozenset()

    def only(self, *rights: Iterable[Grant]) -> None:
        """These, and no others."""
        self._set(frozenset(_binding(grant) for some in rights for grant in some))

    def allow(self, *rights: Iterable[Grant]) -> None:
        """These, too."""
        self._set(self._granted | {_binding(grant) for some in rights for grant in some})

    @contextmanager
    def open_house(self) -> Iterator[None]:
        """Everything is allowed meanwhile, to make topics and records."""
        before = self._granted
        literal, everything = ResourcePatternType.LITERAL, AclOperation.ALL
        names = {kind: CLUSTER if kind is ResourceType.BROKER else "*" for kind in _KINDS.values()}
        self._set(before | {_rule(US, kind, name, literal, everything) for kind, name in names.items()})
        try:
            yield
        finally:
            self._set(before)

    def topics(self) -> frozenset[str]:
        return frozenset(self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def delete_topics(self, names: Collection[str]) -> None:
        if not names:
            return
        self._await(self._admin.delete_topics(list(names)))
        deadline = time.monotonic() + TIMEOUT_S
        while self.topics() & set(names):
            assert time.monotonic() < deadline, f"{names} are still there"
            time.sleep(POLL_S)

    def _set(self, wanted: frozenset[AclBinding]) -> None:
        gone, new = self._granted - wanted, wanted - self._granted
        if gone:
            self._await(self._admin.delete_acls([_filter(each) for each in gone]))
        if new:
            self._await(self._admin.create_acls(list(new)))
        self._granted = wanted
        deadline = time.monotonic() + TIMEOUT_S
        while self._seen() != wanted:  # the controller has answered, and the broker reads what it wrote
            assert time.monotonic() < deadline, f"the broker does not go by {wanted}"
            time.sleep(POLL_S)

    def _seen(self) -> frozenset[AclBinding]:
        any_kind, any_pattern = ResourceType.ANY, ResourcePatternType.ANY
        every = AclBindingFilter(
            any_kind, None, any_pattern, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        return frozenset(self._admin.describe_acls(every).result(TIMEOUT_S))

    @staticmethod
    def _await(futures: Any) -> None:
        for each in futures.values():
            each.result(TIMEOUT_S)


def _binding(grant: Grant) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if grant.prefixed else ResourcePatternType.LITERAL
    return _rule(grant.user, _KINDS[grant.resource], grant.name, pattern, AclOperation[grant.right.name])


def _rule(user: str, kind: Any, name: str, pattern: Any, operation: Any) -> AclBinding:
    return AclBinding(kind, name, pattern, user, "*", operation, AclPermissionType.ALLOW)


def _filter(rule: Any) -> AclBindingFilter:
    pattern, operation = rule.resource_pattern_type, rule.operation
    return AclBindingFilter(
        rule.restype, rule.name, pattern, rule.principal, "*", operation, rule.permission_type
    )


@contextmanager
def start_guarded(properties: Mapping[str, str], listeners: Sequence[Listener] = ()) -> Iterator[Guarded]:
    """`listeners`: for clients, beside the plain one."""
    brokers = Listener(
        name="BROKERS", host=LOOPBACK, sasl=Sasl(mechanisms=("PLAIN",), users={"broker": _PASSWORD})
    )
    protocols = {each.name: each.protocol for each in (brokers, *listeners)}
    # A coordinator of transactions has markers written by leaders, and needs the right to it as a client does.
    named = {
        "listener.security.protocol.map": ",".join(
            [
                GUARDED["listener.security.protocol.map"],
                *(f"{name}:{each}" for name, each in protocols.items()),
            ]
        ),
        "inter.broker.listener.name": brokers.name,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.brokers.plain.sasl.jaas.config": _JAAS,
    }
    with LabCluster.start(
        name="guarded", properties={**GUARDED, **named, **properties}, listeners=(brokers, *listeners)
    ) as cluster:
        yield Guarded(cluster)
