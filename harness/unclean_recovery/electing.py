"""Requests elections, one batch after another, from a broker that passes them on to the controller.

An error that passes leads to the next server after a pause. When the tool is to stop, the request under way is waited
for, since it may have its effect, and no other is sent.

Contains requests and pauses. Does not contain what is requested next, or what an answer means (elections.py).
"""

from __future__ import annotations

import asyncio
from typing import Any

from harness.model import PeerFailure
from harness.model.plurals import counted
from harness.model.session import NotSent
from harness.unclean_recovery.access import AccessSettings, Cluster, MissingApi
from harness.unclean_recovery.elections import VERSION_LEAST, Batch, Designations, batches
from harness.unclean_recovery.options import ElectionType
from harness.unclean_recovery.outcomes import Outcome
from harness.unclean_recovery.partitions import TopicPartition
from harness.unclean_recovery.stopping import pause
from harness.unclean_recovery.watch import Watch
from nodes.wire import codec


class Electing:
    """The elections of one run of a tool."""

    def __init__(self, cluster: Cluster, settings: AccessSettings, stop: asyncio.Event, watch: Watch) -> None:
        self._cluster, self._settings, self._stop, self._watch = cluster, settings, stop, watch

    async def elect_all(self, kind: ElectionType, wanted: Designations, retries: int) -> dict[TopicPartition, Outcome]:
        """The outcome for each of these partitions."""
        if not wanted:
            return {}
        self._watch.stage(f"electing leaders of {counted(len(wanted), 'partition')}", len(wanted))
        outcomes: dict[TopicPartition, Outcome] = {}
        for batch in batches(kind, wanted, retries):
            await self._elect(batch, len(outcomes))
            outcomes |= batch.outcomes
        return outcomes

    async def _elect(self, batch: Batch, done_before: int) -> None:
        pauses = 0
        while batch.open and not self._stop.is_set():
            waits = await self._request(batch)
            self._watch.done(done_before + len(batch.outcomes))
            if waits:
                self._watch.note(f"{self._cluster.server}: {batch.last_error}")
                self._cluster.use_next_server()
                await pause(self._stop, self._settings.pause_seconds(pauses))
                pauses += 1
        batch.interrupt()

    async def _request(self, batch: Batch) -> bool:
        """One request; returns whether an error has to pass before the next one."""
        timeout_ms = self._settings.request_timeout_ms
        try:
            return batch.receive(await self._ask(batch, timeout_ms))
        except (NotSent, MissingApi) as failure:
            return batch.lose(str(failure), was_sent=False)
        except PeerFailure as failure:
            return batch.lose(str(failure), was_sent=True)

    async def _ask(self, batch: Batch, timeout_ms: int) -> Any:
        """The server gives up before the client does, so that its error arrives."""
        values = batch.values(timeout_ms * 3 // 4)
        least = VERSION_LEAST[batch.kind]
        return await self._cluster.ask(self._cluster.server, codec.ELECT_LEADERS, least, values, timeout_ms)
