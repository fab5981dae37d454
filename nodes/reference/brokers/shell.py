"""The shell of a broker: its life at the active controller, its partitions, and the requests of clients.

    broker = BrokerShell(config, facts)
    life = asyncio.create_task(broker.live())        # registers, sends heartbeats
    broker.metadata_changed()                        # the node has applied more of the metadata
    values = await broker.values("PLAINTEXT", frame) # the response to a client or to another broker
    await broker.shut_down()                         # the controlled shutdown, before the quorum's

Requests for the controller are forwarded to it (KIP-590), unchanged: it serves the same versions.

Contains connections and waiting. What a broker asks is in core/controller/lifecycle.py, what it answers in metadata.py
and, of partitions and groups, in replicas.py and groups.py.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.session import NotSent
from nodes.reference import acl_apis, apis, controller_apis
from nodes.reference.addresses import Addresses, Connections
from nodes.reference.brokers import authorization, group_apis, metadata, partition_apis
from nodes.reference.brokers.authorization import OF_USERS, Client
from nodes.reference.brokers.cleaning import Intervals
from nodes.reference.brokers.groups import Groups
from nodes.reference.brokers.log_store import LogStore
from nodes.reference.brokers.properties import BrokerConfig
from nodes.reference.brokers.replicas import Place, Replicas
from nodes.reference.core.controller.lifecycle import Lifecycle, LifecycleSettings
from nodes.reference.core.controller.messages import (
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    AlterConfigs,
    AlterPartition,
    AlterPartitionResponse,
    ControllerRequest,
    ControllerResponse,
    IsrChange,
    RegisterBrokerResponse,
)
from nodes.reference.core.node import Node
from nodes.reference.core.partitions.events import Note
from nodes.reference.core.partitions.log_config import LOG_DEFAULTS, SEGMENT_BYTES, LogConfig, log_config
from nodes.reference.core.records.entities import BrokerEndpoint
from nodes.reference.core.settings import NodeSettings
from nodes.wire import codec

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""The file that a clean shutdown leaves, with the broker epoch; it is gone once the broker has started."""

SHUTDOWN_SECONDS = 5.0
FORWARD_MS = 10_000
RETRY_SECONDS = 0.05

SERVED: Mapping[int, range] = {
    codec.METADATA: range(14),
    codec.API_VERSIONS: range(5),
    codec.DESCRIBE_CONFIGS: range(1, 5),
    codec.INCREMENTAL_ALTER_CONFIGS: range(2),
    codec.DESCRIBE_CLUSTER: range(3),
    codec.DESCRIBE_QUORUM: range(3),
    codec.DESCRIBE_TOPIC_PARTITIONS: range(1),
    codec.DESCRIBE_ACLS: range(1, 4),
    codec.DESCRIBE_LOG_DIRS: range(1, 5),
    codec.GET_REPLICA_LOG_INFO: range(2),
    codec.INIT_PRODUCER_ID: range(5),
    **partition_apis.SERVED,
    **group_apis.SERVED,
    **{key: controller_apis.SERVED[key] for key in controller_apis.OF_CLIENTS},
}
"""The versions that a broker serves to clients, by API key; a setting may leave some out."""

FORWARDED = (*controller_apis.OF_CLIENTS, codec.INCREMENTAL_ALTER_CONFIGS, codec.DESCRIBE_QUORUM)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a broker knows of its node: its quorum's core, the nodes' addresses, its folder, the core's clock, how it
    logs, and how it ends after a failure."""

    node: Node
    settings: NodeSettings
    addresses: Addresses
    directory: Path
    now_ms: Callable[[], int]
    note: Callable[[Note], None]
    fail: Callable[[Exception], None]


class BrokerShell:
    """One broker, from its start until its controlled shutdown."""

    def __init__(self, config: BrokerConfig, facts: NodeFacts) -> None:
        self._facts, self._id = facts, facts.settings.node_id
        self._users = config.users
        controller = facts.settings.controller
        self._topic_defaults = {
            **LOG_DEFAULTS,
            SEGMENT_BYTES: str(config.segment_bytes),
            **(controller.topic_defaults if controller else {}),
        }
        logs_by_current_epoch = {} if config.last_written_epochs else {codec.GET_REPLICA_LOG_INFO: range(1)}
        self.served: Mapping[int, range] = {**SERVED, **logs_by_current_epoch, **(OF_USERS if config.users else {})}
        client_id = f"broker-{self._id}"
        self._controllers = Connections(facts.addresses, client_id)
        self._lifecycle = Lifecycle(self._identity(config), facts.now_ms())
        self._replicas = Replicas(config.partitions, self._place(config), self, facts.note, facts.fail)
        self._groups = Groups(config.groups, self._id, self._replicas, self._create_topic, facts.note, facts.fail)
        self._producer_ids = iter(range(0))  # what is left of the block that the controller has given
        self._applied_offset_seen = -1
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

    def _place(self, config: BrokerConfig) -> Place:
        facts, defaults = self._facts, self._topic_defaults

        def config_of(topic: str) -> LogConfig:
            return log_config(lambda name: facts.node.metadata.image.config(topic, name, defaults))

        return Place(
            lambda: facts.node.metadata.image,
            LogStore(facts.directory, config_of),
            config.replication_listener,
            defaults,
            config.checkpoint_interval_ms,
            Intervals(config.retention_check_interval_ms, config.cleaner_backoff_ms),
        )

    def metadata_changed(self) -> None:
        """The node may have applied more of the metadata.

        Partitions begin with the metadata that has this registration: before it, the broker may lead what it led when
        it was here last.
        """
        metadata = self._facts.node.metadata
        own = metadata.image.brokers.get(self._id)
        is_registered = own is not None and own.epoch == self._lifecycle.epoch
        if is_registered and metadata.applied_offset != self._applied_offset_seen:
            self._applied_offset_seen = metadata.applied_offset
            self._replicas.metadata_changed()
            self._groups.metadata_changed(metadata.image)

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
        await self._groups.close()
        await self._replicas.close()
        await self._controllers.close()

    @property
    def _applied_offset(self) -> int:
        return self._facts.node.metadata.applied_offset - 1

    async def _ask(self, request: ControllerRequest) -> None:
        """Send the lifecycle's request to the active controller, if one is known."""
        answer: Any = await self._answer(request)
        if answer is None:
            self._lifecycle.failed(self._facts.now_ms())
            return
        self._lifecycle.answered(answer, self._facts.now_ms())
        if isinstance(answer, RegisterBrokerResponse) and self._lifecycle.epoch >= 0:
            self._replicas.registered(self._lifecycle.epoch)
            self.metadata_changed()
        if not self._lifecycle.is_fenced:
            self.was_live.set()

    async def _answer(self, request: ControllerRequest) -> ControllerResponse | None:
        """The active controller's response to the broker; None if there is none."""
        api_key, values = controller_apis.broker_request(request)
        connection = self._controllers.to(self._facts.node.leader_id)
        try:
            if connection is None:
                raise NotSent("no node is known to lead the quorum")
            response = await connection.call_latest(api_key, values, self._facts.settings.request_timeout_ms)
        except PeerFailure:
            return None
        return controller_apis.broker_response(response)

    async def alter_partition(self, changes: tuple[IsrChange, ...]) -> AlterPartitionResponse | None:
        """The controller's response to changes of ISRs; None if there is none."""
        answer = await self._answer(AlterPartition(self._id, self._lifecycle.epoch, changes))
        return answer if isinstance(answer, AlterPartitionResponse) else None

    async def values(self, listener: str, client: Client, frame: codec.RequestFrame) -> Any:
        """The values of the response to a client's request, or the controller's response itself."""
        image = self._facts.node.metadata.image
        if frame.api_key == codec.SASL_HANDSHAKE:
            return authorization.handshake(frame.request)
        if frame.api_key == codec.SASL_AUTHENTICATE:
            return authorization.authenticated(client, frame.request, self._users)
        refusal = authorization.refusal(client, frame, image)
        if refusal is not None:
            return refusal
        return authorization.visible(client, frame, image, await self._values(listener, client, frame))

    async def _values(self, listener: str, client: Client, frame: codec.RequestFrame) -> Any:
        """The response to a request that the client may send."""
        facts, request, image = self._facts, frame.request, self._facts.node.metadata.image
        about = image, self._id, listener, facts.settings.cluster_id
        match frame.api_key:
            case codec.API_VERSIONS:
                return apis.api_versions(self.served)
            case codec.METADATA:
                return metadata.metadata(request, *about)
            case codec.DESCRIBE_CLUSTER:
                return metadata.describe_cluster(request, *about)
            case codec.DESCRIBE_CONFIGS:
                return metadata.describe_configs(request, image, self._topic_defaults)
            case codec.DESCRIBE_TOPIC_PARTITIONS:
                return metadata.topic_partitions(request, image)
            case codec.DESCRIBE_ACLS:
                return acl_apis.described(request, image.acls.values())
            case codec.DESCRIBE_LOG_DIRS:
                usage = shutil.disk_usage(facts.directory)
                return metadata.log_dirs(
                    request, facts.directory, (usage.total, usage.free), self._replicas.log_sizes()
                )
            case codec.GET_REPLICA_LOG_INFO:
                return metadata.replica_logs(request, image, self._lifecycle.epoch, self._replicas.log_ends())
            case codec.INIT_PRODUCER_ID:
                return await self._init_producer_id(request)
            case key if key in partition_apis.SERVED:
                named = partition_apis.incoming(key, request, image)
                response = await self._replicas.respond(named.request)
                return None if response is None else partition_apis.outgoing(response, image, named.unknown)
            case key if key in group_apis.SERVED:
                return await self._groups.values(frame, listener, f"/{client.host}", image)
        assert frame.api_key in FORWARDED, f"API {frame.api_key} is served"
        return await self._forward(frame)

    async def _create_topic(self, values: Mapping[str, Any]) -> Any:
        """The controller's response to CreateTopics; a topic of the broker's own, not of a client."""
        version = max(SERVED[codec.CREATE_TOPICS])
        request = codec.build(codec.CREATE_TOPICS, version, "request", values)
        return await self._forward(codec.RequestFrame(codec.CREATE_TOPICS, version, 0, None, request))

    async def _init_producer_id(self, request: Any) -> Any:
        """A producer id that nobody else has. Transactions are not supported."""
        if request.transactional_id is not None:
            return partition_apis.producer_id(ErrorCode.transactional_id_authorization_failed)
        producer_id = next(self._producer_ids, None)
        if producer_id is None:
            block = await self._answer(AllocateProducerIds(self._id, self._lifecycle.epoch))
            if not isinstance(block, AllocateProducerIdsResponse) or block.error is not ErrorCode.none:
                return partition_apis.producer_id(ErrorCode.coordinator_load_in_progress)
            self._producer_ids = iter(range(block.first, block.first + block.count))
            producer_id = next(self._producer_ids)
        return partition_apis.producer_id(ErrorCode.none, producer_id)

    async def _forward(self, frame: codec.RequestFrame) -> Any:
        """The active controller's response; an error of all the request if there is none in time."""
        deadline_ms = self._facts.now_ms() + FORWARD_MS
        while self._facts.now_ms() < deadline_ms:
            connection = self._controllers.to(self._facts.node.leader_id)
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
