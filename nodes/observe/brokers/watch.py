"""Observes brokers and ZooKeeper, in run time.

Every broker is asked for metadata, and its log shows elections of the controller, truncations and failures of its
fetchers. ZooKeeper is asked for its sessions. A claim to be the controller is reported at each answer of ZooKeeper.

The controller's epoch is in its log alone. ZooKeeper may have a new controller before that line is read, so a claim is
reported only with the highest epoch that any broker has logged.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from harness.model import Observation
from harness.model.conditions import Condition
from harness.model.session import Connection
from harness.model.systems import NodeFiles
from nodes.observe.brokers.conditions import BrokerView, holds
from nodes.observe.brokers.metadata_watch import MetadataWatch
from nodes.observe.brokers.sessions import Sessions, request_sessions
from nodes.observe.cluster_watch import POLL_TIMEOUT_MS, ClusterWatch
from nodes.observe.log_lines import LogEvent


class BrokerWatch(ClusterWatch[BrokerView]):
    """harness.model.systems.Observer of brokers and ZooKeeper. The leader is the controller."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        wall_origin_ns: int,
        observe: Callable[[Observation], None],
        files: Mapping[int, NodeFiles],
        connections: Mapping[int, Connection],
        zookeeper: tuple[str, int],
    ) -> None:
        """Files and connections are those of the brokers, zookeeper is the address and port of ZooKeeper."""
        super().__init__(now_ns, wall_origin_ns, observe, files, connections.values())
        self._zookeeper = zookeeper
        self._sessions: Sessions | None = None
        self._brokers = MetadataWatch(now_ns, observe, connections, POLL_TIMEOUT_MS)
        self._controller_epochs: dict[int, int] = {}

    def view(self) -> BrokerView:
        """The latest view of the cluster."""
        return BrokerView(self._nodes, self._sessions, self._brokers.view(self._stored, self._compacted))

    def _holds(self, condition: Condition, view: BrokerView) -> bool:
        return holds(condition, view)

    def _watchers(self) -> Iterable[Coroutine[Any, Any, None]]:
        yield self._poll_zookeeper(*self._zookeeper)
        yield from self._brokers.pollers(self._polled)

    def _log_event(self, node: int, event: LogEvent) -> None:
        if event.epoch is not None and event.leader == node:
            self._controller_epochs[node] = event.epoch
        self._brokers.log_event(node, event)

    def _forget(self, node: int) -> None:
        if node in self._nodes:
            self._brokers.forget(node)
        else:
            self._sessions = None

    async def _poll_zookeeper(self, address: str, port: int) -> None:
        while True:
            self._sessions = await request_sessions(address, port, POLL_TIMEOUT_MS / 1000)
            self._report_claim(self.view().leader())
            await self._polled()

    def _report_claim(self, controller: int | None) -> None:
        epochs = self._controller_epochs
        if controller in epochs and epochs[controller] == max(epochs.values()):
            epoch = epochs[controller]
            self._observe(Observation(self._now_ns(), controller, "zookeeper", "claim", epoch=epoch, leader=controller))
