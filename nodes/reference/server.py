"""The shell of a node: a TCP server, a clock, a disk and peers around the sans-IO core.

Passes events to the core and carries out its effects in order. Contains no protocol decisions.

Everything runs on one event loop, and all effects of an event are carried out before the next event is handled. Data
that the core persists is durable before any later effect leaves the process.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import socket
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import EnvironmentFailure, PeerFailure
from nodes.reference import apis
from nodes.reference.addresses import Addresses
from nodes.reference.brokers.authorization import Client
from nodes.reference.brokers.shell import BrokerShell, NodeFacts
from nodes.reference.brokers_logs import BrokersLogs
from nodes.reference.core.events import (
    Arrived,
    AskLogs,
    Discover,
    Effect,
    Event,
    Halt,
    Located,
    Note,
    Reply,
    Send,
    StateChange,
    Stopping,
    Tick,
)
from nodes.reference.core.messages import Request, Response
from nodes.reference.core.node import Node
from nodes.reference.core.partitions import events as events_of_partitions
from nodes.reference.disk import Disk, formatted
from nodes.reference.dispatch import asked
from nodes.reference.log_lines import broker_log_line, log_line
from nodes.reference.peers import Peers
from nodes.reference.properties import CONTROLLER, ServerConfig
from nodes.wire import codec


def now_ms() -> int:
    """The core's clock, which is monotonic."""
    return time.monotonic_ns() // 1_000_000


class Server:
    """One node, from its start until it halts."""

    def __init__(self, config: ServerConfig) -> None:
        self._config, self._settings = config, formatted(config.directory, config.settings)
        self._served = apis.served(self._settings)
        self._disk = Disk(config.directory, self._settings, lambda text: self._note(Note(text)))
        own = {} if self._settings.advertised is None else {self._settings.node_id: self._settings.advertised}
        self._addresses = Addresses({**config.voters, **own})
        self._peers = Peers(self._settings.node_id, self._addresses, self._settings.request_timeout_ms, self._step)
        self._brokers_logs = BrokersLogs(
            self._settings.node_id, lambda: self._node.metadata.image, self._settings.request_timeout_ms, self._step
        )
        draw = random.Random(config.seed).randrange
        wall_offset_ms = time.time_ns() // 1_000_000 - now_ms()
        self._node = Node(self._settings, self._disk.load(), draw, now_ms(), wall_offset_ms)
        about = self._node, self._settings, self._addresses, config.directory
        facts = NodeFacts(*about, now_ms, self._note_of_broker, self._fail)
        self._broker = BrokerShell(config.broker, facts) if config.broker else None
        self._listening: list[asyncio.Server] = []
        self._stopping: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._request_ids, self._connection_ids = itertools.count(), itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._halted: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    async def run(self) -> str | None:
        """Serve until the core halts; returns the reason, or None after a graceful shutdown."""
        self._listening = [await self._listen(CONTROLLER, *self._config.listen)] if self._config.listen else []
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        self._step(Tick())
        tasks = [asyncio.create_task(self._broker.live())] if self._broker else []
        tasks.append(asyncio.create_task(self._serve_clients()))
        try:
            return await self._halted
        finally:
            for task in tasks:
                task.cancel()
            for listener in self._listening:
                listener.close()
            await self._close()

    async def _serve_clients(self) -> None:
        """Listen for clients once the broker is live, as in Kafka; a controller has no clients to wait for."""
        if self._broker is not None and self._config.broker is not None:
            await self._broker.was_live.wait()
            try:
                for name, address in self._config.broker.listeners.items():
                    self._listening.append(await self._listen(name, *address))
            except EnvironmentFailure as failure:
                self._fail(failure)
        self._note(Note("Kafka Server started", "kafka.server.KafkaRaftServer"))

    async def _listen(self, name: str, host: str, port: int) -> asyncio.Server:
        try:
            return await asyncio.start_server(partial(self._serve, name), host, port, reuse_address=True)
        except OSError as error:
            raise EnvironmentFailure(f"listening on {host}:{port}: {error.strerror}") from error

    async def _close(self) -> None:
        await self._peers.close()
        await self._brokers_logs.close()
        try:
            if self._broker is not None:
                await self._broker.close()
            self._disk.close()
        except OSError as error:
            raise self._disk_failure(error) from error

    def _stop(self) -> None:
        """Begin the graceful shutdown: the broker's first, then that of the quorum's node."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._shut_down())

    async def _shut_down(self) -> None:
        try:
            if self._broker is not None:
                await self._broker.shut_down()
        except OSError as error:
            self._fail(self._disk_failure(error))
        self._step(Stopping())

    def _step(self, event: Event) -> None:
        """Pass one event to the core and carry out its effects; a failure ends the node."""
        try:
            if not self._halted.done():
                self._handle(event)
        except OSError as error:
            self._fail(self._disk_failure(error))
        except Exception as defect:
            self._fail(defect)
            raise

    def _handle(self, event: Event) -> None:
        for effect in self._node.handle(event, now_ms()):
            self._carry_out(effect)
            if self._halted.done():
                return
        if self._broker is not None:
            self._broker.metadata_changed()
        self._set_timer()

    def _disk_failure(self, error: OSError) -> EnvironmentFailure:
        return EnvironmentFailure(f"writing to {self._config.directory}: {error.strerror}")

    def _fail(self, reason: Exception) -> None:
        """End the process: the checks would attribute the behaviour of a half-dead node to the protocol."""
        if not self._halted.done():
            self._halted.set_exception(reason)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._peers.send(effect)
            case Discover():
                self._peers.discover(effect)
            case Located(node_id, address):
                self._addresses.learn(node_id, address)
            case AskLogs(question):
                self._brokers_logs.ask(question)
            case Reply(request_id, response):
                waiting = self._waiting.pop(request_id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(response)
            case Note():
                self._note(effect)
            case StateChange():
                self._note(effect.note)
            case Halt(failure):
                self._halted.set_result(failure)
            case _:
                self._disk.carry_out(effect)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        delay_s = max(0, self._node.deadline_ms - now_ms()) / 1000
        self._timer = loop.call_later(delay_s, self._step, Tick())

    def _note(self, note: Note) -> None:
        print(log_line(note, self._settings.node_id, time.time_ns()), flush=True)

    def _note_of_broker(self, note: events_of_partitions.Note) -> None:
        print(broker_log_line(note, time.time_ns()), flush=True)

    async def _serve(self, listener: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client's connection: requests are handled as they arrive, responses are sent in the same order."""
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        responses: asyncio.Queue[asyncio.Task[bytes | None]] = asyncio.Queue()
        writing = asyncio.create_task(self._write(writer, responses))
        connection, client = next(self._connection_ids), Client(writer.get_extra_info("peername")[0])
        try:
            while True:
                length = codec.frame_length(await reader.readexactly(4))
                frame = await reader.readexactly(length)
                responses.put_nowait(asyncio.create_task(self._respond(listener, client, connection, frame)))
        except (OSError, EOFError, PeerFailure, asyncio.CancelledError):
            pass  # the client has disconnected or uses another protocol, or the node ends: there is no one to notify
        finally:
            writing.cancel()
            while not responses.empty():
                responses.get_nowait().cancel()
            writer.close()

    async def _write(self, writer: asyncio.StreamWriter, responses: asyncio.Queue[asyncio.Task[bytes | None]]) -> None:
        try:
            while True:
                response = await (await responses.get())
                if response is not None:
                    writer.write(response)
                    await writer.drain()
        except (OSError, PeerFailure):
            writer.close()
        except Exception as defect:
            self._fail(defect)
            raise

    async def _respond(self, listener: str, client: Client, connection: int, frame: bytes) -> bytes | None:
        """The response to one request, as a frame; None if it has none (Produce with acks=0).

        Raises PeerFailure for a request that cannot be answered.
        """
        served = self._served if listener == CONTROLLER or self._broker is None else self._broker.served
        try:
            request = codec.decode_request(frame)
        except codec.UnsupportedVersion as unsupported:
            return self._reject_version(unsupported, served)
        if request.api_version not in served.get(request.api_key, ()):
            head = (request.api_key, request.api_version, request.correlation_id)
            return self._reject_version(codec.UnsupportedVersion(*head), served)
        response: Any
        if listener == CONTROLLER:
            response = await self._values(connection, request)
        else:
            assert self._broker is not None, "only a broker has listeners for clients"
            response = await self._broker.values(listener, client, request)
        if response is None:
            return None
        if isinstance(response, dict):
            response = codec.build(request.api_key, request.api_version, "response", response)
        return codec.encode_response(response, request.correlation_id)

    def _reject_version(self, unsupported: codec.UnsupportedVersion, served: Mapping[int, range]) -> bytes:
        """KIP-511: the response to an unsupported ApiVersions has version 0; others close the connection."""
        if unsupported.api_key != codec.API_VERSIONS:
            raise unsupported
        values = apis.api_versions(served, ErrorCode.unsupported_version)
        return codec.encode_response(codec.build(codec.API_VERSIONS, 0, "response", values), unsupported.correlation_id)

    async def _values(self, connection: int, frame: codec.RequestFrame) -> dict[str, Any]:
        """The values of the response to a request."""
        to_core = asked(frame.api_key, frame.request, self._node, self._settings, self._addresses)
        if not isinstance(to_core, tuple):
            return to_core
        request, values_of = to_core
        return values_of(await self._asked(connection, request))

    async def _asked(self, connection: int, request: Request) -> Response:
        """Pass a request to the core and wait for its response."""
        request_id = next(self._request_ids)
        response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = response
        try:
            self._step(Arrived(connection, request_id, request))
            return await response
        finally:
            self._waiting.pop(request_id, None)
