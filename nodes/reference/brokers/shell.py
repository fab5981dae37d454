"""The shell of a broker: its life at the active controller, and the requests of clients.

    broker = BrokerShell(config, settings, voters, lambda: node, now_ms)
    life = asyncio.create_task(broker.live())        # registers, sends heartbeats
    values = await broker.values("PLAINTEXT", frame) # the response to a client
    await broker.shut_down()                         # the controlled shutdown, before the quorum's

Requests for the controller are forwarded to it (KIP-590), unchanged: it serves the same versions.

Contains connections and waiting. What a broker asks is in core/controller/lifecycle.py, what it answers in metadata.py.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.session import NotSent
from nodes.reference import apis, controller_apis
from nodes.reference.brokers import metadata
from nodes.reference.brokers.properties import BrokerConfig, Endpoint
from nodes.reference.core.controller.lifecycle import Lifecycle, LifecycleSettings
from nodes.reference.core.controller.messages import AlterConfigs, ControllerRequest
from nodes.reference.core.node import Node
from nodes.reference.core.records.entities import BrokerEndpoint
from nodes.reference.core.settings import NodeSettings
from nodes.wire import codec
from nodes.wire.connection import WireConnection

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""The file that a clean shutdown leaves, with the broker epoch; it is gone once the broker has started."""

SHUTDOWN_SECONDS = 10.0
FORWARD_MS = 10_000
RETRY_SECONDS = 0.05

SERVED: Mapping[int, range] = {
    codec.METADATA: range(14),
    codec.API_VERSIONS: range(5),
    codec.DESCRIBE_CONFIGS: range(1, 5),
    codec.INCREMENTAL_ALTER_CONFIGS: range(2),
    codec.DESCRIBE_CLUSTER: range(3),
    codec.DESCRIBE_QUORUM: range(3),
    **{key: controller_apis.SERVED[key] for key in controller_apis.OF_CLIENTS},
}
"""The versions that a broker serves to clients, by API key."""

FORWARDED = (*controller_apis.OF_CLIENTS, codec.INCREMENTAL_ALTER_CONFIGS, codec.DESCRIBE_QUORUM)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a broker knows of its node: its quorum's core, the voters' addresses, its folder, and the core's clock."""

    node: Node
    settings: NodeSettings
    voters: Mapping[int, Endpoint]
    directory: Path
    now_ms: Callable[[], int]


class BrokerShell:
    """One broker, from its start until its controlled shutdown."""

    def __init__(self, config: BrokerConfig, facts: NodeFacts) -> None:
        self._facts, self._id = facts, facts.settings.node_id
        client_id = f"broker-{self._id}"
        self._controllers = {node: WireConnection(*address, client_id) for node, address in facts.voters.items()}
        self._lifecycle = Lifecycle(self._identity(config), facts.now_ms())
        self._ended, self._woken = asyncio.Event(), asyncio.Event()
        self.was_live = asyncio.Event()  # the broker was unfenced: clients may be served

    def _identity(self, config: BrokerConfig) -> LifecycleSettings:
        marker = self._facts.directory / CLEAN_SHUTDOWN
        previous_epoch = json.loads(marker.read_text())["brokerEpoch"] if marker.exists() else -1
        marker.unlink(missing_ok=True)
        endpoints = tuple(
            BrokerEndpoint(name=name, host=host, port=port) for name, (host, port) in config.advertised.items()
        )
        return LifecycleSettings(
            self._id,
            self._facts.settings.cluster_id,
            uuid.uuid4(),
            endpoints,
            previous_epoch=previous_epoch,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
        )

    async def live(self) -> None:
        """Register and send heartbeats, until the controlled shutdown is complete."""
        while not self._lifecycle.may_end:
            request = self._lifecycle.next_request(self._applied_offset, self._facts.now_ms())
            if request is None:
                await self._wait()
            else:
                await self._ask(request)
        self._ended.set()

    async def _wait(self) -> None:
        """Wait until the next request is due, or the shutdown begins."""
        delay_ms = self._lifecycle.deadline_ms - self._facts.now_ms()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), delay_ms / 1000)
        self._woken.clear()

    async def shut_down(self) -> None:
        """Ask the controller to relieve the broker, and wait until it has, or for SHUTDOWN_SECONDS."""
        self._lifecycle.stop(self._facts.now_ms())
        self._woken.set()
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            return
        marker = self._facts.directory / CLEAN_SHUTDOWN
        marker.write_text(json.dumps({"version": 0, "brokerEpoch": self._lifecycle.epoch}))

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._controllers.values():
            await connection.close()

    @property
    def _applied_offset(self) -> int:
        return self._facts.node.metadata.applied_offset - 1

    async def _ask(self, request: ControllerRequest) -> None:
        """Send the lifecycle's request to the active controller, if one is known."""
        api_key, values = controller_apis.broker_request(request)
        connection = self._controllers.get(self._facts.node.leader_id or -1)
        try:
            if connection is None:
                raise NotSent("no node is known to lead the quorum")
            response = await connection.call_latest(api_key, values, self._facts.settings.request_timeout_ms)
        except PeerFailure:
            self._lifecycle.failed(self._facts.now_ms())
        else:
            answer: Any = controller_apis.broker_response(response)
            self._lifecycle.answered(answer, self._facts.now_ms())
            if not self._lifecycle.is_fenced:
                self.was_live.set()

    async def values(self, listener: str, frame: codec.RequestFrame) -> Any:
        """The values of the response to a client's request, or the controller's response itself."""
        facts, request, image = self._facts, frame.request, self._facts.node.metadata.image
        about = image, self._id, listener, facts.settings.cluster_id
        match frame.api_key:
            case codec.API_VERSIONS:
                return apis.api_versions(SERVED)
            case codec.METADATA:
                return metadata.metadata(request, *about)
            case codec.DESCRIBE_CLUSTER:
                return metadata.describe_cluster(request, *about)
            case codec.DESCRIBE_CONFIGS:
                controller = facts.settings.controller
                return metadata.describe_configs(request, image, controller.topic_defaults if controller else {})
        assert frame.api_key in FORWARDED, f"API {frame.api_key} is served"
        return await self._forward(frame)

    async def _forward(self, frame: codec.RequestFrame) -> Any:
        """The active controller's response; an error of all the request if there is none in time."""
        deadline_ms = self._facts.now_ms() + FORWARD_MS
        while self._facts.now_ms() < deadline_ms:
            connection = self._controllers.get(self._facts.node.leader_id or -1)
            try:
                if connection is not None:
                    response = await connection.call(frame.request, FORWARD_MS)
                    if not controller_apis.is_not_controller(response):
                        return response
            except NotSent:
                pass
            except PeerFailure:
                break  # the request may have had its effect
            await asyncio.sleep(RETRY_SECONDS)
        return _refused(frame, ErrorCode.request_timed_out, "The controller did not answer in time.")


def _refused(frame: codec.RequestFrame, error: ErrorCode, reason: str) -> Any:
    if frame.api_key == codec.DESCRIBE_QUORUM:
        return {"error_code": error, "topics": [], "nodes": [], "error_message": reason}
    if frame.api_key == codec.INCREMENTAL_ALTER_CONFIGS:
        return controller_apis.refused(AlterConfigs(apis.config_changes(frame.request)), error, reason)
    request = controller_apis.incoming(frame.api_key, frame.request)
    return controller_apis.INVALID_ELECTION if request is None else controller_apis.refused(request, error, reason)
