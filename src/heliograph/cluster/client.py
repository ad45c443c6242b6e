"""A client of one Kafka cluster: bootstrap, metadata, and connections to its brokers.

Owns which broker leads what and the connections to them. A connection is asked for by (node, purpose): fetches,
appends and control calls never queue behind each other. A failed connection is opened again with backoff and
jitter; while that runs, callers get `Disconnected` at once and decide for themselves.

It knows nothing of mirroring.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from heliograph.cluster.bootstrap_servers import is_address
from heliograph.cluster.broker_versions import BrokerVersions
from heliograph.cluster.connection import Connection
from heliograph.cluster.messages import call, common_version
from heliograph.cluster.metadata import Broker, ClusterMetadata, Leader, from_response, request_for
from heliograph.cluster.open_connection import answer_limit
from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.repeated_call import RepeatedCall
from heliograph.cluster.security.attempts import Attempts
from heliograph.cluster.security.cluster_locks import ClusterLocks
from heliograph.cluster.security.settings import Security
from heliograph.model.errors import (
    AuthenticationFailed,
    ClusterMistaken,
    ClusterUnreachable,
    ConfigError,
    Disconnected,
    ProtocolError,
    RequestFailed,
    SecurityFailed,
    SecurityUnusable,
)
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey

CONTROL = "control"
BOOTSTRAP_NODE = -1
JITTER = 0.2
METADATA_ANSWER_MS = 3_000  # any broker can answer: one that hangs must not hide for long who leads now

# Brokers name one of them at random as the controller: their answers differ in that, and in nothing else as a rule.
METADATA_KEPT = 32
REFUSED_AGAIN_S = 60.0
MOST_OF_HOST = 80  # characters that are told of what a broker advertises: it may have 32,767
METADATA_VERSIONS = range(MetadataRequest.max_version + 1)
# Brokers that take none as high create the topics that a request names, if auto.create.topics.enable says so. They are
# asked for all topics instead: a mirror creates nothing at a source.
NOTHING_CREATED_FROM = 4
T = TypeVar("T")


class ClusterClient:
    """One per cluster and event loop. `attempts`: shared by those that use the same secrets on the cluster."""

    def __init__(self, name: str, properties: ClientProperties, attempts: Attempts | None = None) -> None:
        self.name = name
        self.properties = properties
        self.metadata = ClusterMetadata(cluster_id="", controller=-1, brokers={})
        self.on_metadata: Callable[[Sequence[str]], None] = lambda _topics: None  # those that have changed
        self.on_refused: Callable[[SecurityFailed], None] = lambda _problem: (
            None
        )  # TLS or SASL, or a changed file that is of no use; told again each minute
        self._refused_with = ""
        self._refused_at = float("-inf")
        self._topics: set[str] | None = set()
        self._connections: dict[tuple[int, str], Connection] = {}
        self._opening: dict[tuple[int, str], asyncio.Task[Connection]] = {}
        self._failures: dict[tuple[int, str], int] = {}
        self._not_before: dict[tuple[int, str], float] = {}
        self._attempts = attempts or Attempts()
        self._locks = self._locks_for(properties.security, self._attempts)
        self._versions = BrokerVersions(properties, self._locks)
        self._metadata_call = RepeatedCall(MetadataResponse, self._read_metadata, kept=METADATA_KEPT)
        self._read_last: ClusterMetadata | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_at = float("-inf")
        self._keeper: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Find the cluster through its bootstrap servers, or raise `ClusterUnreachable` naming each address;
        `ConfigError` if it is another one than the config says."""
        problems = []
        hint = ""
        for host, port in self.properties.bootstrap_servers:
            try:
                self.metadata = await self._ask_address(host, port, self._topics)
            except ClusterMistaken as mistaken:
                raise ConfigError(
                    [f"clusters.{self.name}.cluster.id: {mistaken.message}"], hint=mistaken.hint
                ) from mistaken
            except SecurityUnusable as unusable:
                raise ConfigError(
                    [f"clusters.{self.name}: {unusable.message}"], hint=unusable.hint
                ) from unusable
            except AuthenticationFailed as refused:
                raise ClusterUnreachable(
                    f"cluster {self.name!r}: {refused.message}", hint=refused.hint
                ) from refused
            except (RequestFailed, ProtocolError) as problem:
                problems.append(problem.message)
                hint = hint or problem.hint
                continue
            self._refreshed_at = asyncio.get_running_loop().time()
            self.start()
            return
        raise ClusterUnreachable(
            f"cluster {self.name!r} cannot be reached: {'; '.join(problems)}",
            hint=hint
            or f"check clusters.{self.name}.bootstrap.servers and that a Kafka broker listens there for"
            f" {self.properties.security.protocol}",
        )

    def start(self) -> None:
        """Keep metadata fresh from now on; a cluster that is away is found when it is back."""
        self._keeper = asyncio.create_task(self._keep())
        self._keeper.add_done_callback(_report_end)

    def use(self, security: Security) -> None:
        """Prove with this who we are, from now on. Connections that are open stay so."""
        if security != self.properties.security:
            self._attempts.forgive()
        self.properties = replace(self.properties, security=security)
        self._locks.use(security)

    async def try_security(self, security: Security) -> None:
        """Whether the cluster lets us in with that, by a connection that is closed again; `SecurityFailed` if it does
        not, and what else is wrong where no broker can be asked. Once for each call, whatever was refused before: how
        often is up to the caller."""
        locks = self._locks_for(security, Attempts())
        versions = BrokerVersions(replace(self.properties, security=security), locks)
        addresses = [(broker.host, broker.port) for broker in self.metadata.brokers.values()]
        problem: RequestFailed | ProtocolError | None = None
        for host, port in (*addresses, *self.properties.bootstrap_servers):
            try:
                (await self._opened(versions, locks, Broker(BOOTSTRAP_NODE, host, port))).close()
            except SecurityFailed:
                raise
            except (RequestFailed, ProtocolError) as failed:
                problem = failed
            else:
                return
            finally:
                await locks.aclose()
        assert problem is not None
        raise problem

    def _locks_for(self, security: Security, attempts: Attempts) -> ClusterLocks:
        timeout_ms = min(
            self.properties.socket_connection_setup_timeout_ms, self.properties.request_timeout_ms
        )
        return ClusterLocks(security, timeout_ms=timeout_ms, attempts=attempts)

    async def _ask_address(self, host: str, port: int, topics: set[str] | None) -> ClusterMetadata:
        """Metadata from an address that need not be a known broker, over a connection of its own."""
        connection = await self._open(Broker(BOOTSTRAP_NODE, host, port))
        try:
            return await self._fetch_metadata(connection, topics)
        finally:
            connection.close()

    async def aclose(self) -> None:
        tasks = [*self._opening.values(), *(t for t in (self._refreshing, self._keeper) if t)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._locks.aclose(), return_exceptions=True)
        for connection in list(self._connections.values()):
            connection.close()

    # -- metadata

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.metadata.leader(where)

    def follow(self, topics: Iterable[str]) -> None:
        """Keep these topics' metadata from the next refresh on."""
        if self._topics is not None:
            self._topics.update(topics)

    async def refresh(self) -> None:
        """Read metadata again; callers that come together share one request, spaced by retry.backoff.ms."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())
            self._refreshing.add_done_callback(_retrieve)
        await asyncio.shield(self._refreshing)

    async def read_metadata(self, topics: Iterable[str] | None) -> ClusterMetadata:
        """Metadata of these topics (None: all), read now and not kept."""
        return await self._ask_any(set(topics) if topics is not None else None)

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self._refreshed_at + self.properties.retry_backoff_ms / 1000 - loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        before = self.metadata
        try:
            self.metadata = before.updated(await self._ask_any(self._topics), loop.time())
        finally:
            self._refreshed_at = loop.time()
        self.on_metadata(self.metadata.changed_since(before))

    async def _ask_any(self, topics: set[str] | None) -> ClusterMetadata:
        nodes = list(self.metadata.brokers)
        random.shuffle(nodes)
        nodes.sort(key=lambda node: self.open_connection_to(node, CONTROL) is None)  # open ones first
        problem: RequestFailed | ProtocolError | None = None
        for node in nodes:
            try:
                return await self._fetch_metadata(await self.connection(node, CONTROL), topics)
            except (RequestFailed, ProtocolError) as failed:
                problem = failed
        for host, port in self.properties.bootstrap_servers:
            try:
                return await self._ask_address(host, port, topics)
            except (RequestFailed, ProtocolError) as failed:
                problem = failed
        raise problem or Disconnected(f"no broker of cluster {self.name!r} is known")

    async def _fetch_metadata(self, connection: Connection, topics: set[str] | None) -> ClusterMetadata:
        version = common_version(connection, ApiKey.METADATA, "Metadata", METADATA_VERSIONS)
        by_name = topics is not None and version >= NOTHING_CREATED_FROM
        asked = tuple(sorted(topics)) if topics is not None and by_name else None
        timeout_ms = min(METADATA_ANSWER_MS, self.properties.request_timeout_ms)
        # Made anew for each version: what "all topics" is written as differs, and kafka-python changes the request.
        read = await self._metadata_call(
            connection, (asked, version), lambda: request_for(asked), timeout_ms=timeout_ms, version=version
        )
        found = self._identified(read)
        return found if topics is None or by_name else found.only(topics)

    def _identified(self, read: ClusterMetadata) -> ClusterMetadata:
        """With an id: the cluster's own, or the one that is configured where it has none (before Kafka 0.10.1)."""
        configured = self.properties.cluster_id
        if not read.cluster_id and not configured:
            raise ClusterMistaken(
                "required: the cluster has no id of its own (Kafka before 0.10.1)",
                hint=f"give cluster {self.name!r} an id that no other cluster has, and never change it:"
                f" clusters: {{{self.name}: {{cluster.id: {self.name}-1}}}}",
            )
        if configured and read.cluster_id not in ("", configured):
            raise ClusterMistaken(
                f"{configured!r} is configured, and the cluster that answers has the id {read.cluster_id!r}",
                hint="check bootstrap.servers; cluster.id is needed only where a cluster has no id",
            )
        return read if read.cluster_id else replace(read, cluster_id=configured)

    def _read_metadata(self, response: Any) -> ClusterMetadata:
        """What is the same is one object: many answers are kept, and there may be thousands of topics."""
        read, last = from_response(response), self._read_last
        if last is not None and read.topics == last.topics:
            read = replace(read, topics=last.topics)
        self._read_last = read
        return read

    async def _keep(self) -> None:
        """Refresh every metadata.max.age.ms and close what is idle past connections.max.idle.ms."""
        loop = asyncio.get_running_loop()
        max_age_s = self.properties.metadata_max_age_ms / 1000
        while True:
            if loop.time() - self._refreshed_at >= max_age_s:
                with contextlib.suppress(RequestFailed, ProtocolError):
                    await (
                        self.refresh()
                    )  # if not, the old metadata stays in use; a request that it misleads asks again
            await asyncio.sleep(min(1.0, max_age_s))
            self._close_idle(loop.time())

    # -- connections

    def _close_idle(self, now: float) -> None:
        limit_ms = self.properties.connections_max_idle_ms
        for connection in list(self._connections.values()):
            if 0 <= limit_ms < (now - connection.last_used) * 1000 and not connection.waiting:
                connection.close()

    def open_connection_to(self, node: int, purpose: str) -> Connection | None:
        """The connection if it is open now."""
        connection = self._connections.get((node, purpose))
        return connection if connection is not None and not connection.closed else None

    async def connection(self, node: int, purpose: str, *, unacknowledged_ms: int = 0) -> Connection:
        """The open connection for this purpose, or a new one; `Disconnected` when it cannot be had.
        `unacknowledged_ms` (see `open_connection`) is the same at every call for a purpose."""
        ready = self.open_connection_to(node, purpose)
        if ready is not None:
            return ready
        key = (node, purpose)
        if key not in self._opening:
            opening = self._opening[key] = asyncio.create_task(self._reopen(key, unacknowledged_ms))
            opening.add_done_callback(_retrieve)
        return await asyncio.shield(self._opening[key])

    async def call(self, node: int, request: Any, response_class: type[Any], timeout_ms: int = 0) -> Any:
        """One control request to one broker."""
        connection = await self.connection(node, CONTROL)
        timeout_ms = timeout_ms or self.properties.request_timeout_ms
        return await call(connection, request, response_class, timeout_ms=timeout_ms)

    async def call_again(
        self, node: int, question: RepeatedCall[T], asked: Hashable, make: Callable[[], Any]
    ) -> T:
        """A control request that is mostly answered as before."""
        connection = await self.connection(node, CONTROL)
        return await question(connection, asked, make, timeout_ms=self.properties.request_timeout_ms)

    async def _reopen(self, key: tuple[int, str], unacknowledged_ms: int) -> Connection:
        node, _ = key
        loop = asyncio.get_running_loop()
        try:
            wait_s = self._not_before.get(key, 0.0) - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            broker = self.metadata.brokers.get(node)
            if broker is None:
                raise Disconnected(f"cluster {self.name!r} has no broker {node} now")
            connection = await self._open(broker, unacknowledged_ms)
        except (RequestFailed, ProtocolError):
            self._failures[key] = self._failures.get(key, 0) + 1
            self._not_before[key] = loop.time() + self._backoff_s(self._failures[key])
            raise
        finally:
            del self._opening[key]
        self._failures.pop(key, None)
        self._connections[key] = connection
        return connection

    def _backoff_s(self, failures: int) -> float:
        first, highest = self.properties.reconnect_backoff_ms, self.properties.reconnect_backoff_max_ms
        wait_ms = min(first * (1 << min(failures - 1, 20)), max(first, highest))
        return wait_ms / 1000 * random.uniform(1 - JITTER, 1 + JITTER)

    async def _open(self, broker: Broker, unacknowledged_ms: int = 0) -> Connection:
        try:
            connection = await self._opened(self._versions, self._locks, broker, unacknowledged_ms)
        except SecurityFailed as problem:
            self._tell_refused(problem)
            raise
        if (unused := self._locks.problem) is not None:
            self._tell_refused(unused)
        return connection

    def _tell_refused(self, problem: SecurityFailed) -> None:
        now = asyncio.get_running_loop().time()
        if problem.message != self._refused_with or now - self._refused_at >= REFUSED_AGAIN_S:
            self._refused_with, self._refused_at = problem.message, now
            self.on_refused(problem)

    async def _opened(
        self, versions: BrokerVersions, locks: ClusterLocks, broker: Broker, unacknowledged_ms: int = 0
    ) -> Connection:
        self._check_address(broker)
        connection = await versions.open(broker.host, broker.port, unacknowledged_ms=unacknowledged_ms)
        try:
            await locks.authenticate(connection, broker.host)
        except BaseException:  # also when nobody waits for it any more
            connection.close()
            raise
        connection.allow_frames(answer_limit(self.properties))
        return connection

    def _check_address(self, broker: Broker) -> None:
        """A broker with an address that is of no use is away, and no other one is (P7)."""
        if not is_address(broker.host, broker.port):
            told = f"{broker.host[:MOST_OF_HOST]!r}:{broker.port}"
            raise Disconnected(
                f"cluster {self.name!r}: broker {broker.node} cannot be reached: it advertises {told}, which is no"
                " host name and port",
                hint=f"correct advertised.listeners in the configuration of broker {broker.node}",
            )


def _retrieve(shared: asyncio.Task[Any]) -> None:
    """Whoever waits for it hears that the cluster is away; when all have given up waiting, it is nobody's news.
    Anything else is a bug that somebody must hear of. Not of the task: its repr shows what the exception is about, a
    password for example."""
    if shared.cancelled() or isinstance(shared.exception(), (RequestFailed, ProtocolError, type(None))):
        return
    context = {"message": "a request to a cluster failed", "exception": shared.exception()}
    shared.get_loop().call_exception_handler(context)


def _report_end(keeper: asyncio.Task[None]) -> None:
    """A keeper ends when it is cancelled; anything else is a bug that somebody must hear of."""
    if not keeper.cancelled() and (problem := keeper.exception()) is not None:
        context = {"message": "a cluster's metadata is no longer refreshed", "exception": problem}
        asyncio.get_running_loop().call_exception_handler(context)
