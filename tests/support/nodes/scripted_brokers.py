"""Brokers on the loopback interface that speak Kafka's protocol and answer as a script says.

    cluster = ScriptedCluster({("t", 0): Partition((1, 2), None, {1: (3, 40), 2: (3, 50)})})
    cluster.script(codec.ELECT_LEADERS, refuse(ErrorCode.not_controller))     # the first request, then the model
    async with cluster:
        ...cluster.bootstrap...

Without a script, requests are answered from a small model of KAFKA-20098: the logs of replicas, and elections that need
an offline partition and a live replica of it. Contains no clocks: a script waits for events.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.unclean_recovery.access import AccessSettings
from harness.unclean_recovery.options import Address
from nodes.wire import codec
from nodes.wire.unreleased.elect_leaders_v3 import DESIGNATED, PREFERRED

Values = dict[str, Any]
Reply = Values | bytes | None
"""Values of the response, bytes in place of a response, or None to close the connection."""
Script = Callable[[Callable[[], Values]], Awaitable[Reply]]
"""Answers one request; it is passed the model's answer, which takes effect when it is called."""

FAST = AccessSettings(request_timeout_ms=5_000, metadata_timeout_ms=5_000, backoff_ms=1, backoff_ms_max=2)
"""Pauses that a test does not notice, and time-outs that it does not reach."""

SERVED: Mapping[int, range] = {
    codec.API_VERSIONS: range(5),
    codec.METADATA: range(14),
    codec.DESCRIBE_CLUSTER: range(3),
    codec.SASL_HANDSHAKE: range(2),
    codec.SASL_AUTHENTICATE: range(3),
    codec.ELECT_LEADERS: range(4),
    codec.GET_REPLICA_LOG_INFO: range(2),
}


class Silent:
    """A watch that nobody looks at."""

    def stage(self, text: str, total: int) -> None: ...

    def done(self, count: int) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass(slots=True)
class Partition:
    """A partition: its replicas, its leader if any, and for each broker epoch, log end and the last record's epoch.

    A log without the third number has written its last record in the current epoch. errors are answers in place of
    logs.
    """

    replicas: tuple[int, ...]
    leader: int | None
    logs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    errors: dict[int, ErrorCode] = field(default_factory=dict)


def refuse(code: ErrorCode) -> Script:
    """Answer with this error of the whole request."""

    async def script(_model: Callable[[], Values]) -> Reply:
        return {"throttle_time": 0, "error_code": code, "replica_election_results": []}

    return script


async def close(_model: Callable[[], Values]) -> Reply:
    """Close the connection; nothing takes effect."""
    return None


async def close_after_effect(model: Callable[[], Values]) -> Reply:
    """Carry the request out, and close the connection before the response."""
    model()
    return None


async def garbage(_model: Callable[[], Values]) -> Reply:
    """Answer with bytes that are no frame."""
    return b"\xff" * 64


async def answer(model: Callable[[], Values]) -> Reply:
    """The model's answer."""
    return model()


def after(event: asyncio.Event) -> Script:
    """The model's answer, once the event is set."""

    async def script(model: Callable[[], Values]) -> Reply:
        await event.wait()
        return model()

    return script


def first(action: Callable[[], object]) -> Script:
    """Do something, and then answer as the model does."""

    async def script(model: Callable[[], Values]) -> Reply:
        action()
        return model()

    return script


class ScriptedCluster:
    """The brokers, their partitions, and what they were asked.

    dead brokers listen nowhere; fenced ones answer. DescribeCluster names both, Metadata none of them, and none can be
    elected. limit
    is how many partitions of a request are served. credentials are those that a connection needs.
    """

    def __init__(
        self,
        partitions: Mapping[tuple[str, int], Partition],
        brokers: Collection[int] = (1, 2, 3),
        dead: Collection[int] = (),
        fenced: Collection[int] = (),
        limit: int = 1000,
        served: Mapping[int, Mapping[int, range]] | None = None,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        self.partitions = dict(partitions)
        self.brokers, self.dead, self.fenced, self.limit = tuple(brokers), set(dead), set(fenced), limit
        self.credentials = credentials
        self.requests: list[tuple[int, codec.RequestFrame]] = []
        self.arrived = asyncio.Condition()
        self.ids = {topic: uuid.uuid5(uuid.NAMESPACE_DNS, topic) for topic, _ in partitions}
        self._served = {broker: (served or {}).get(broker, SERVED) for broker in self.brokers}
        self._scripts: dict[tuple[int | None, int], deque[Script]] = defaultdict(deque)
        self._ports: dict[int, int] = {}
        self._stack = contextlib.AsyncExitStack()
        self._connected: set[asyncio.Task[None]] = set()

    def script(self, api_key: int, *scripts: Script, broker: int | None = None) -> None:
        """Answer the next requests of this API so, at this broker or at all together."""
        self._scripts[broker, api_key] += scripts

    def asked(self, api_key: int, broker: int | None = None) -> list[Any]:
        """The requests of this API that came so far."""
        return [frame.request for at, frame in self.requests if frame.api_key == api_key and broker in (None, at)]

    async def wait_for(self, api_key: int, count: int) -> None:
        """Wait until so many requests of this API have come."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.asked(api_key)) >= count)

    def address(self, broker: int) -> Address:
        """Where a broker listens."""
        return Address("127.0.0.1", self._ports[broker])

    @property
    def addresses(self) -> list[Address]:
        """The brokers that are neither dead nor fenced."""
        return [self.address(broker) for broker in self.brokers if broker not in self.dead | self.fenced]

    @property
    def bootstrap(self) -> str:
        """What --bootstrap-server wants."""
        return ",".join(map(str, self.addresses))

    async def __aenter__(self) -> ScriptedCluster:
        for broker in self.brokers:
            server = await asyncio.start_server(lambda *streams, at=broker: self._connect(at, *streams), "127.0.0.1", 0)
            self._ports[broker] = server.sockets[0].getsockname()[1]
            self._stack.callback(server.close)
            if broker in self.dead:
                server.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        for each in self._connected:
            each.cancel()
        await asyncio.gather(*self._connected, return_exceptions=True)

    async def _connect(self, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connected.add(task)
        try:
            with contextlib.suppress(OSError, EOFError, PeerFailure, asyncio.CancelledError):
                await self._serve(broker, reader, writer)
        finally:
            writer.close()
            self._connected.discard(task)

    async def _serve(self, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests one after another, as Kafka does; the connection is closed after a None."""
        is_known = self.credentials is None
        while True:
            length = codec.frame_length(await reader.readexactly(4))
            frame = codec.decode_request(await reader.readexactly(length))
            if frame.api_version not in self._served[broker].get(frame.api_key, ()):
                return
            free = (codec.API_VERSIONS, codec.SASL_HANDSHAKE, codec.SASL_AUTHENTICATE)
            if not is_known and frame.api_key not in free:
                return
            async with self.arrived:
                self.requests.append((broker, frame))
                self.arrived.notify_all()
            reply = await self._script_of(broker, frame.api_key)(lambda: self._answer(broker, frame))  # noqa: B023
            if reply is None:
                return
            if frame.api_key == codec.SASL_AUTHENTICATE and isinstance(reply, dict):
                is_known = reply["error_code"] is ErrorCode.none
            writer.write(reply if isinstance(reply, bytes) else _encoded(frame, reply))
            await writer.drain()

    def _script_of(self, broker: int, api_key: int) -> Script:
        queue = self._scripts[broker, api_key] or self._scripts[None, api_key]
        return queue.popleft() if queue else answer

    def _answer(self, broker: int, frame: codec.RequestFrame) -> Values:
        match frame.api_key:
            case codec.API_VERSIONS:
                return self._api_versions(broker)
            case codec.METADATA:
                return self._metadata(frame.request)
            case codec.DESCRIBE_CLUSTER:
                return self._describe_cluster(frame.request)
            case codec.GET_REPLICA_LOG_INFO:
                return self._log_info(broker, frame.request)
            case codec.ELECT_LEADERS:
                return self._elections(frame.request)
            case codec.SASL_HANDSHAKE:
                is_plain = frame.request.mechanism == "PLAIN" and self.credentials is not None
                code = ErrorCode.none if is_plain else ErrorCode.unsupported_sasl_mechanism
                return {"error_code": code, "mechanisms": ["PLAIN"] if self.credentials else []}
        return self._authenticated(frame.request)

    def _authenticated(self, request: Any) -> Values:
        user, password = self.credentials or ("", "")
        is_right = request.auth_bytes == f"\0{user}\0{password}".encode()
        code, message = (ErrorCode.none, None) if is_right else (ErrorCode.sasl_authentication_failed, "wrong password")
        return {"error_code": code, "error_message": message, "auth_bytes": b"", "session_lifetime": 0}

    def _api_versions(self, broker: int) -> Values:
        ranges = self._served[broker].items()
        keys = [{"api_key": key, "min_version": each[0], "max_version": each[-1]} for key, each in ranges]
        return {"error_code": ErrorCode.none, "api_keys": keys, "throttle_time": 0}

    def _nodes(self, name: str, with_fenced: bool) -> list[Values]:
        left_out = set() if with_fenced else self.dead | self.fenced
        listed = [broker for broker in self.brokers if broker not in left_out]
        return [{name: broker, "host": "127.0.0.1", "port": self._ports[broker]} for broker in listed]

    def _metadata(self, request: Any) -> Values:
        named = None if request.topics is None else {topic.name for topic in request.topics}
        topics = [self._topic(topic) for topic in sorted(self.ids if named is None else named)]
        common = {"throttle_time": 0, "cluster_id": "c", "controller_id": -1, "error_code": ErrorCode.none}
        return {**common, "brokers": self._nodes("node_id", False), "topics": topics}

    def _topic(self, topic: str) -> Values:
        if topic not in self.ids:
            return {
                "error_code": ErrorCode.unknown_topic_or_partition,
                "name": topic,
                "topic_id": None,
                "partitions": [],
            }
        partitions = [
            {
                "error_code": ErrorCode.none if each.leader is not None else ErrorCode.leader_not_available,
                "partition_index": number,
                "leader_id": -1 if each.leader is None else each.leader,
                "replica_nodes": each.replicas,
            }
            for (name, number), each in self.partitions.items()
            if name == topic
        ]
        return {"error_code": ErrorCode.none, "name": topic, "topic_id": self.ids[topic], "partitions": partitions}

    def _describe_cluster(self, request: Any) -> Values:
        with_fenced = getattr(request, "include_fenced_brokers", False)
        brokers = [{**each, "is_fenced": False} for each in self._nodes("broker_id", with_fenced)]
        common = {"throttle_time": 0, "error_code": ErrorCode.none, "error_message": None, "endpoint_type": 1}
        return {**common, "cluster_id": "c", "controller_id": -1, "brokers": brokers}

    def _log_info(self, broker: int, request: Any) -> Values:
        names = {topic_id: topic for topic, topic_id in self.ids.items()}
        asked = [(each.topic_id, number) for each in request.topic_partitions for number in each.partitions]
        served: dict[uuid.UUID, list[Values]] = defaultdict(list)
        for topic_id, number in asked[: self.limit]:
            served[topic_id].append(_log_of(self.partitions[names[topic_id], number], number, broker))
        return {
            "throttle_time": 0,
            "broker_epoch": 1,
            "has_more_data": len(asked) > self.limit,
            "topic_partition_log_info_list": [
                {"topic_id": topic_id, "partition_log_info": infos} for topic_id, infos in served.items()
            ],
        }

    def _elections(self, request: Any) -> Values:
        asked = [
            (each.topic, number, None if leaders is None else leaders[at])
            for each in request.topic_partitions
            for leaders in [getattr(each, "designated_leaders", None)]
            for at, number in enumerate(each.partitions)
        ]
        served: dict[str, list[Values]] = defaultdict(list)
        for topic, number, leader in asked[: self.limit]:
            code = self._elect((topic, number), request.election_type, leader)
            served[topic].append({"partition_id": number, "error_code": code, "error_message": None})
        results = [{"topic": topic, "partition_result": each} for topic, each in served.items()]
        return {"throttle_time": 0, "error_code": ErrorCode.none, "replica_election_results": results}

    def _elect(self, key: tuple[str, int], kind: int, designated: int | None) -> ErrorCode:
        partition = self.partitions.get(key)
        if partition is None:
            return ErrorCode.unknown_topic_or_partition
        live = [broker for broker in partition.replicas if broker not in self.dead | self.fenced]
        wanted = (
            designated if kind == DESIGNATED else partition.replicas[0] if kind == PREFERRED else next(iter(live), None)
        )
        if partition.leader is not None and (kind != PREFERRED or partition.leader == wanted):
            return ErrorCode.election_not_needed
        if wanted not in live:
            return ErrorCode.eligible_leaders_not_available
        partition.leader = wanted
        return ErrorCode.none


def _log_of(partition: Partition, number: int, broker: int) -> Values:
    if broker in partition.errors:
        epoch, end, written, code = -1, -1, -1, partition.errors[broker]
    else:
        epoch, end, *rest = partition.logs[broker]
        written, code = rest[0] if rest else epoch, ErrorCode.none
    values = {"partition": number, "partition_leader_epoch": epoch, "last_written_leader_epoch": written}
    return {**values, "log_end_offset": end, "error_code": code}


def _encoded(frame: codec.RequestFrame, values: Values) -> bytes:
    response = codec.build(frame.api_key, frame.api_version, "response", values)
    return codec.encode_response(response, frame.correlation_id)
