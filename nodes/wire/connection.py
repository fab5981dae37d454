"""A client's connection to one node, honest about what may have happened.

What may live here: one TCP connection, requests matched to responses by correlation id. What may not: retries,
meaning, or any choice of node.

A call that ends in NotSent certainly did nothing: no byte of it can have left. Any other end without a response is
NoAnswer: it may have happened. After a deadline has passed the connection is given up, so that whatever arrives on
the next one was sent by someone who stopped waiting (the leader's read lease of the reference quorum relies on it).

    connection = WireConnection("10.0.0.1", 9093, "observer")
    quorum = await connection.call_latest(DESCRIBE_QUORUM, {"topics": [...]}, timeout_ms=500)
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

from harness.model import PeerFailure
from harness.model.session import NoAnswer, NotSent
from nodes.wire import codec

Waiting = tuple[Any, "asyncio.Future[Any]"]


class _Link:
    """One open TCP connection, from its opening to its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str) -> None:
        self._reader, self._writer, self._peer = reader, writer, peer
        self._waiting: dict[int, Waiting] = {}
        self._next_correlation_id = 0
        self.ranges: Mapping[int, range] | None = None
        self._reading = asyncio.create_task(self._read())

    @property
    def is_usable(self) -> bool:
        return not self._reading.done() and not self._writer.is_closing()

    def send(self, request: Any, client_id: str) -> asyncio.Future[Any]:
        """Hand the request to the kernel; the future gives its response."""
        correlation_id, self._next_correlation_id = self._next_correlation_id, self._next_correlation_id + 1
        due = codec.message_type(request.__api_key__, request.__version__, "response")
        frame = codec.encode_request(request, correlation_id, client_id)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = (due, answer)
        self._writer.write(frame)
        return answer

    def abort(self, reason: str) -> None:
        """Close at once, without waiting for bytes to leave; everyone waiting hears the reason."""
        if self._writer.transport is not None:
            self._writer.transport.abort()
        self._reading.cancel()
        self._fail_all(NoAnswer(f"waiting for {self._peer}: {reason}"))

    async def _read(self) -> None:
        try:
            while True:
                length = codec.frame_length(await self._reader.readexactly(4))
                self._deliver(await self._reader.readexactly(length))
        except (OSError, EOFError) as error:
            self._fail_all(NoAnswer(f"waiting for {self._peer}: the connection broke ({error})"))
        except PeerFailure as error:
            self._fail_all(NoAnswer(f"waiting for {self._peer}: {error}"))
        finally:
            self._writer.close()

    def _deliver(self, frame: bytes) -> None:
        correlation_id = codec.correlation_id_of(frame)
        if correlation_id not in self._waiting:
            raise PeerFailure(f"correlation id {correlation_id} answers no request of ours")
        due, answer = self._waiting.pop(correlation_id)
        try:
            _, response = codec.decode_response(due, frame)
        except PeerFailure as error:
            _settle(answer, NoAnswer(f"waiting for {self._peer}: {error}"))
            raise
        if not answer.done():
            answer.set_result(response)

    def _fail_all(self, failure: NoAnswer) -> None:
        waiting, self._waiting = self._waiting, {}
        for _, answer in waiting.values():
            _settle(answer, failure)


def _settle(answer: asyncio.Future[Any], failure: NoAnswer) -> None:
    if not answer.done():
        answer.set_exception(failure)
        answer.exception()  # marks it as seen: a caller that was cancelled will not come for it


class WireConnection:
    """harness.model.session.Connection over TCP; calls may overlap: answers find their callers by correlation id."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self._host, self._port, self._client_id = host, port, client_id
        self._link: _Link | None = None
        self._opening = asyncio.Lock()

    async def call(self, request: Any, timeout_ms: int) -> Any:
        """Send one request and return its response, both kio entities. Raises NotSent and NoAnswer, see above."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        link = await self._opened(deadline)
        return await self._exchange(link, request, deadline)

    async def call_latest(self, api_key: int, values: Mapping[str, Any], timeout_ms: int) -> Any:
        """As call, with the request filled from plain values in the newest version that both sides know."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        link = await self._opened(deadline)
        version = await self._newest(link, api_key, deadline)
        return await self._exchange(link, codec.build(api_key, version, "request", values), deadline)

    async def newest_version(self, api_key: int, timeout_ms: int) -> int:
        """The newest version of an API that both sides know. Raises NotSent where there is none."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        return await self._newest(await self._opened(deadline), api_key, deadline)

    async def negotiate(self, timeout_ms: int = 2000) -> Mapping[int, range]:
        """The versions the peer knows, by API key; asked once a connection."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        return await self._ranges(await self._opened(deadline), deadline)

    def abort(self) -> None:
        """Close at once; calls under way end in NoAnswer."""
        if self._link is not None:
            self._link.abort("the connection was given up")
            self._link = None

    async def close(self) -> None:
        """Close the connection; a later call opens it again."""
        self.abort()

    async def _opened(self, deadline: float) -> _Link:
        async with self._opening:
            if self._link is None or not self._link.is_usable:
                self._link = await self._open(deadline)
            return self._link

    async def _open(self, deadline: float) -> _Link:
        peer = f"{self._host}:{self._port}"
        try:
            async with asyncio.timeout_at(deadline):
                reader, writer = await asyncio.open_connection(self._host, self._port)
        except TimeoutError as error:
            raise NotSent(f"connecting to {peer}: no answer in time") from error
        except OSError as error:
            raise NotSent(f"connecting to {peer}: {error.strerror or error}") from error
        endpoint = writer.get_extra_info("socket")
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return _Link(reader, writer, peer)

    async def _exchange(self, link: _Link, request: Any, deadline: float) -> Any:
        # Nothing has awaited since the link was found usable, or ApiVersions alone was sent: no byte of request left.
        if not link.is_usable:
            raise NotSent(f"sending to {self._host}:{self._port}: the connection broke before the request left")
        answer = link.send(request, self._client_id)
        try:
            async with asyncio.timeout_at(deadline):
                return await answer
        except TimeoutError as error:
            self._give_up(link)
            raise NoAnswer(f"waiting for {self._host}:{self._port}: no answer in time") from error
        except asyncio.CancelledError:
            self._give_up(link)
            raise

    def _give_up(self, link: _Link) -> None:
        link.abort("the connection was given up")
        if self._link is link:
            self._link = None

    async def _newest(self, link: _Link, api_key: int, deadline: float) -> int:
        theirs = (await self._ranges(link, deadline)).get(api_key, range(0))
        ours = codec.versions(api_key)
        both = range(max(theirs.start, ours.start), min(theirs.stop, ours.stop))
        if not both:
            raise NotSent(f"asking {self._host}:{self._port}: it has no version of api {api_key} that we know")
        return both[-1]

    async def _ranges(self, link: _Link, deadline: float) -> Mapping[int, range]:
        if link.ranges is None:
            try:
                link.ranges = await self._ask_ranges(link, deadline)
            except NoAnswer as error:
                raise NotSent(f"asking for ApiVersions: {error}") from error
        return link.ranges

    async def _ask_ranges(self, link: _Link, deadline: float) -> Mapping[int, range]:
        us = {"client_software_name": "splitbrain", "client_software_version": "0"}
        version = codec.versions(codec.API_VERSIONS)[-1]
        response = await self._exchange(link, codec.build(codec.API_VERSIONS, version, "request", us), deadline)
        if response.error_code == codec.ErrorCode.unsupported_version:
            request = codec.build(codec.API_VERSIONS, 0, "request", {})
            response = await self._exchange(link, request, deadline)
        return {key.api_key: range(key.min_version, key.max_version + 1) for key in response.api_keys}
