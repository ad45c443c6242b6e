"""A member of an election: a consumer group on the target cluster.

Owns the task that asks the group's coordinator, finds it again when it moves, and tells when the standing changes. What
answers mean is group_membership.py's, what members tell each other their protocol's. Must not know what a driver does
with its standing.

Its connections are its own, one group's each: a coordinator answers a join only when the rebalance is over, and nothing
else may wait behind that; what members write down (fenced_cells.py) has another one. It goes on for ever: no answer, no
error and no bug ends it but `aclose`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.connection import Connection
from heliograph.cluster.fenced_cells import Cell, commit_cells, read_cells
from heliograph.cluster.group_membership import Membership, NextStep
from heliograph.cluster.group_protocol import GroupProtocol
from heliograph.cluster.group_requests import Ask
from heliograph.cluster.messages import call, unpacking
from heliograph.cluster.standing import Permitted, Placed, Seeking, Standing
from heliograph.model.clock import clock_of_suspended_time
from heliograph.model.errors import (
    BrokerRefused,
    Disconnected,
    ProtocolError,
    RequestFailed,
    RequestTimedOut,
)
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

GROUP_KEY_TYPE = 0
HEARTBEAT_S = 1.0
WATCH_S = 0.1
REFRESH_WAIT_S = 0.5  # the refresh goes on by itself; a heartbeat must not wait for it
BACKOFF_FIRST_S, BACKOFF_MOST_S = 0.1, 1.0
# A coordinator gives up on a commit after offsets.commit.timeout.ms, 5 s by default, and says so.
CELLS_ANSWER_S = 8.0

Clock = Callable[[], float]


class Election:
    """`on_change(standing)` is called in the event loop at every change. `standing` and `lease_until` are exact at any
    time."""

    def __init__(
        self,
        client: ClusterClient,
        group: str,
        protocol: GroupProtocol,
        *,
        on_change: Callable[[Standing], None],
        clock: Clock = clock_of_suspended_time,
    ) -> None:
        self._client = client
        self._group = group
        self._purpose = f"election of {group}"
        self._cells_purpose = f"cells of {group}"
        self._clock = clock
        self._on_change = on_change
        self._membership = Membership(group, protocol)
        self._told: Standing = Seeking()
        self._coordinator: int | None = None
        self._turn = random.randrange(1 << 16)
        self._failures = 0
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def standing(self) -> Standing:
        return self._membership.standing(self._clock())

    @property
    def lease_until(self) -> float:
        """On `clock`: until then the standing gives rights. Minus infinity unless it was told: other threads must not
        hear of a new term before the listener has ended what was of the old one."""
        return self._membership.lease_until if self._told == self.standing else -math.inf

    def start(self) -> None:
        assert not self._tasks, "an election starts once"
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._watch())]

    async def aclose(self, leave: bool = True) -> None:
        """The standing is given up before anything is sent; with `leave` a standby takes over at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        goodbye = self._membership.leave()
        self._tell()
        self._close_connections()  # a join may wait for its answer there, and all later requests behind it
        self._close_connections(self._cells_purpose)
        if leave and goodbye is not None:
            with contextlib.suppress(RequestFailed, ProtocolError, TimeoutError):
                await self._ask(goodbye)  # if not, the session's end does the same, later
        self._close_connections()

    # -- what members write down

    async def commit(self, cells: Mapping[TopicPartition, Cell]) -> None:
        """Under the term of the standing at this moment. `BrokerRefused` with the coordinator's code when it is not, or
        no longer, the group's: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS. Whatever comes of it, the
        membership goes on as it is."""
        standing = self.standing
        if not isinstance(standing, Placed | Permitted):
            raise BrokerRefused(
                f"group {self._group}: this run is not a member that may commit now",
                code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
        term = standing.term
        await commit_cells(
            self._ask_apart, self._group, term.member, term.generation, cells, timeout_s=CELLS_ANSWER_S
        )

    async def cells(self) -> dict[TopicPartition, Cell]:
        """All that was committed to the group, by whomever."""
        return await read_cells(self._ask_apart, self._group, timeout_s=CELLS_ANSWER_S)

    async def _ask_apart(self, ask: Ask) -> Any:
        """On a connection on which no join waits."""
        try:
            async with asyncio.timeout(ask.timeout_s):
                node = self._coordinator
                if node is None:  # the membership looks for it, too, in its own time
                    node = await self._find(self._cells_purpose)
                connection = await self._client.connection(node, self._cells_purpose)
                timeout_ms = int(ask.timeout_s * 1000)
                return await call(connection, ask.message, ask.response_class, timeout_ms=timeout_ms)
        except TimeoutError:
            raise RequestTimedOut(
                f"group {self._group}: no answer to {ask.message.name} in {ask.timeout_s:.0f} s"
            ) from None

    # -- the membership

    async def _run(self) -> None:
        while True:
            try:
                await self._turn_once()
            except Exception as bug:  # noqa: BLE001 - reported; without this task the link would have no driver
                self._report("the election met a bug", bug)
                self._membership.trouble(f"group {self._group}: {bug!r}")
                await asyncio.sleep(BACKOFF_MOST_S)

    async def _turn_once(self) -> None:
        try:
            response, sent_at = await self._ask(ask := self._membership.next_ask())
            then = self._membership.answered(response, sent_at=sent_at)
        except TimeoutError:
            await self._failed(
                f"group {self._group}: no answer to {ask.message.name} in {ask.timeout_s:.0f} s"
            )
        except (RequestFailed, ProtocolError) as problem:
            hint = f"; {problem.hint}" if problem.hint else ""
            await self._failed(f"group {self._group}: {problem.message}{hint}")
        else:
            self._tell()
            await self._rest(then)

    async def _failed(self, problem: str) -> None:
        """Nothing was answered: perhaps another broker is the coordinator now, perhaps the cluster is away."""
        self._membership.trouble(problem)
        self._tell()
        self._close_connections()
        with contextlib.suppress(RequestFailed, ProtocolError, TimeoutError):
            async with asyncio.timeout(REFRESH_WAIT_S):
                await self._client.refresh()
        await self._rest(NextStep.FIND)

    async def _rest(self, then: NextStep) -> None:
        if then is NextStep.FIND:
            self._coordinator = None
        if then is NextStep.REST:
            self._failures = 0
            await asyncio.sleep(HEARTBEAT_S)
        elif then is not NextStep.GO_ON:
            wait_s = min(BACKOFF_FIRST_S * (1 << min(self._failures, 10)), BACKOFF_MOST_S)
            self._failures += 1
            await asyncio.sleep(wait_s * random.uniform(0.8, 1.2))

    async def _watch(self) -> None:
        """A lease that ends while nobody answers changes the standing, too: `on_change` is called."""
        while True:
            await asyncio.sleep(WATCH_S)
            self._tell()

    def _tell(self) -> None:
        standing = self.standing
        if standing == self._told:
            return
        try:
            self._on_change(standing)
        except Exception as bug:  # noqa: BLE001 - the listener's; the election must outlive it
            self._report("a listener of the election failed", bug)
        finally:
            self._told = (
                standing  # not before: `lease_until` tells other threads of nothing that is not heard yet
            )

    def _report(self, message: str, bug: Exception) -> None:
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": bug})

    # -- the coordinator

    async def _ask(self, ask: Ask) -> tuple[Any, float]:
        """The answer, and a moment before the request was sent."""
        async with asyncio.timeout(ask.timeout_s):
            connection = await self._connect()
            sent_at = self._clock()
            timeout_ms = int(ask.timeout_s * 1000)
            return await call(connection, ask.message, ask.response_class, timeout_ms=timeout_ms), sent_at

    async def _connect(self) -> Connection:
        if self._coordinator is None:
            self._coordinator = await self._find(self._purpose)
        return await self._client.connection(self._coordinator, self._purpose)

    async def _find(self, purpose: str) -> int:
        """Ask the brokers in turn: one that hangs is met once in a round."""
        nodes = sorted(self._client.metadata.brokers)
        if not nodes:
            raise Disconnected(f"no broker of cluster {self._client.name!r} is known")
        self._turn += 1
        asked = await self._client.connection(nodes[self._turn % len(nodes)], purpose)
        request = FindCoordinatorRequest(
            key=self._group, key_type=GROUP_KEY_TYPE, coordinator_keys=[self._group]
        )
        timeout_ms = self._client.properties.request_timeout_ms
        response = await call(asked, request, FindCoordinatorResponse, timeout_ms=timeout_ms)
        with unpacking(f"the coordinator of group {self._group} from {asked.address}"):
            found = (
                response.coordinators[0] if response.coordinators else response
            )  # a list from version 4 on
            code, node = int(found.error_code), int(found.node_id)
        if code:
            raise self._not_found(code)
        return node

    def _not_found(self, code: int) -> BrokerRefused:
        denied = code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        hint = f"grant READ on the group {self._group} of the target cluster" if denied else ""
        return BrokerRefused(f"no coordinator found: {ErrorCode.name_of(code)}", code=code, hint=hint)

    def _close_connections(self, purpose: str = "") -> None:
        for node in self._client.metadata.brokers:
            connection = self._client.open_connection_to(node, purpose or self._purpose)
            if connection is not None:
                connection.close()
