"""The copier's port to a source cluster of a world: cluster.BatchSource's questions, to the model."""

from __future__ import annotations

import asyncio

from heliograph.cluster.transactions import OpenTransaction
from heliograph.model.errors import Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import Isolation
from heliograph.wire.fetch import FetchReply
from heliograph.wire.fetch_request import FetchAsk

from .long_poll import WaitingFetch
from .sim_questions import Questions


class SimSource(Questions):
    async def fetch(
        self,
        node: int,
        line: str,  # noqa: ARG002 - here nobody waits for anybody
        ask: FetchAsk,
        *,
        max_bytes: int,
        max_wait_ms: int,
        isolation: Isolation,
    ) -> FetchReply:
        client = self.client
        world = client.cluster.world
        answer: asyncio.Future[FetchReply] = asyncio.get_running_loop().create_future()
        if not world.plan.produces_by_id:  # a broker that knows no ids is asked by names
            ask = ask._replace(names=None)
        committed = isolation is Isolation.READ_COMMITTED
        fetch = WaitingFetch(client, node, ask, max_bytes, answer, committed=committed)
        limit_s = (client.properties.request_timeout_ms + max_wait_ms) / 1000
        world.after(world.delay_s(), self._arrive, fetch, max_wait_ms / 1000, limit_s)
        try:
            return await answer
        finally:
            fetch.over = True
            world.fetches.pop(fetch, None)

    def _arrive(self, fetch: WaitingFetch, wait_s: float, limit_s: float) -> None:
        client, world = self.client, self.client.cluster.world
        if world.loses_message():
            if world.chance.random() < 0.5:
                fetch.end(Disconnected("the connection broke"))
            else:
                fetch.over = True
                client.time_out(fetch.answer, limit_s)
            return
        world.fetches[fetch] = None
        fetch.look()
        if not fetch.over:
            world.after(wait_s, fetch.look_again, True)
            if client.cluster.is_frozen(fetch.node):
                client.time_out(fetch.answer, limit_s)

    async def open_transaction(self, where: TopicPartition) -> OpenTransaction | None:
        node, _ = self.client.reach(where)

        def read() -> OpenTransaction | None:
            open_at = self.client.replica(where, node).replicas[node].producers.open_at
            if not open_at:
                return None
            oldest = min(open_at, key=lambda number: open_at[number])
            return OpenTransaction(
                where=where,
                producer_id=oldest,
                start_offset=open_at[oldest],
                last_record_ms=-1,
                owner=None,
                servers="sim:1",
            )

        found: OpenTransaction | None = await self.client.ask(node, read)
        return found
