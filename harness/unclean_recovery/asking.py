"""Asks brokers for the logs of their replicas, all brokers at a time, until all have answered or the time is over.

Contains requests, pauses and the deadline. Does not contain what is asked for next, or what an answer means
(survey.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from harness.model import PeerFailure
from harness.model.plurals import counted
from harness.unclean_recovery.access import AccessSettings, Cluster, MissingApi
from harness.unclean_recovery.choice import ReplicaLog
from harness.unclean_recovery.partitions import PartitionState, TopicPartition
from harness.unclean_recovery.survey import BrokerSurvey, answers_of, question, surveys_of
from harness.unclean_recovery.watch import Watch
from nodes.wire import codec

NO_ADDRESS: Final = "no server of the cluster names the broker's address"

Logs = Mapping[TopicPartition, Mapping[int, ReplicaLog]]
"""For each partition what is known of its replicas' logs, by broker."""


class Asking:
    """One round of questions to all brokers that have replicas of offline partitions."""

    def __init__(
        self,
        cluster: Cluster,
        offline: Mapping[TopicPartition, PartitionState],
        settings: AccessSettings,
        watch: Watch,
    ) -> None:
        self._cluster, self._offline, self._settings, self._watch = cluster, offline, settings, watch
        self._surveys = surveys_of(offline)
        self._ids = {each.topic: state.topic_id for each, state in offline.items() if state.topic_id is not None}
        self._topics = {topic_id: topic for topic, topic_id in self._ids.items()}
        self._replicas = sum(len(survey.open) for survey in self._surveys.values())

    async def ask_all(self, duration_ms: int) -> None:
        """Ask every broker; returns when all answers are final, or after this time."""
        deadline = asyncio.get_running_loop().time() + duration_ms / 1000
        if not self._surveys:
            return
        brokers = counted(len(self._surveys), "broker")
        self._watch.stage(
            f"asking {brokers} for {counted(self._replicas, 'log')}, up to {duration_ms:,} ms", self._replicas
        )
        async with asyncio.TaskGroup() as group:
            for broker, survey in self._surveys.items():
                group.create_task(self._ask(broker, survey, deadline))

    def logs(self, otherwise: str) -> Logs:
        """What is known now; otherwise is what to say of replicas of which nothing is known."""
        unknown = ReplicaLog(error=otherwise)
        return {
            partition: {broker: self._surveys[broker].logs.get(partition, unknown) for broker in state.replicas}
            for partition, state in self._offline.items()
        }

    async def _ask(self, broker: int, survey: BrokerSurvey, deadline: float) -> None:
        """Ask one broker, page by page; its connection answers one request after another anyway."""
        loop, pauses = asyncio.get_running_loop(), 0
        while not survey.is_done and (left := deadline - loop.time()) > 0:
            if survey.open:
                await self._ask_page(broker, survey, int(left * 1000))
                left_over = sum(len(each.open) + len(each.postponed) for each in self._surveys.values())
                self._watch.done(self._replicas - left_over)
                continue
            await asyncio.sleep(min(left, self._settings.pause_seconds(pauses)))
            pauses += 1
            survey.resume()

    async def _ask_page(self, broker: int, survey: BrokerSurvey, timeout_ms: int) -> None:
        page, address = survey.page(), self._cluster.address_of(broker)
        if address is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._cluster.refresh_brokers()
            if self._cluster.address_of(broker) is None:
                survey.postpone(NO_ADDRESS)
            return
        values = question(page, self._ids)
        try:
            response = await self._cluster.ask(address, codec.GET_REPLICA_LOG_INFO, 0, values, timeout_ms)
        except MissingApi as failure:
            survey.give_up(str(failure))
        except PeerFailure as failure:
            survey.postpone(str(failure))
            self._watch.note(f"broker {broker}: {failure}")
        else:
            survey.receive(page, answers_of(response, self._topics), response.has_more_data)
