"""A client's connection to one node that distinguishes requests that were not sent from those without a response.

Contains one TCP connection and the matching of responses to requests by correlation id. Does not contain retries, the
meaning of messages, or the choice of a node.

NotSent: no byte of the request was sent, so it had no effect. NoAnswer: the request may have had its effect. When a
call's deadline passes, the connection is closed. So a request on a new connection proves that the client no longer
waits for the earlier response; the read lease of the reference quorum relies on this.

    connection = WireConnection("10.0.0.1", 9093, "observer")
    quorum = await connection.call_latest(DESCRIBE_QUORUM, {"topics": [...]}, timeout_ms=500)
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Any

from harness.model import PeerFailure
from harness.model.session import NoAnswer, NotSent
from nodes.wire import codec
from nodes.wire.sasl import NotAuthenticated, Plain

Waiting = tuple[Any, "asyncio.Future[Any]"]


class _Link:
    """One open TCP connection."""

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
        """Pass the request to the kernel; returns a future of its response."""
        correlation_id, self._next_correlation_id = self._next_correlation_id, self._next_correlation_id + 1
        response_type = codec.message_type(request.__api_key__, request.__version__, "response")
        frame = codec.encode_request(request, correlation_id, client_id)
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = (response_type, response)
        self._writer.write(frame)
        return response

    def abort(self, reason: str) -> None:
        """Close at once, without flushing; pending calls fail with the reason."""
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
            raise PeerFailure(f"correlation id {correlation_id} matches no pending request")
        response_type, future = self._waiting.pop(correlation_id)
        try:
            _, response = codec.decode_response(response_type, frame)
        except PeerFailure as error:
            _fail(future, NoAnswer(f"waiting for {self._peer}: {error}"))
            raise
        if not future.done():
            future.set_result(response)

    def _fail_all(self, failure: NoAnswer) -> None:
        waiting, self._waiting = self._waiting, {}
        for _, future in waiting.values():
            _fail(future, failure)


def _fail(future: asyncio.Future[Any], failure: NoAnswer) -> None:
    if not future.done():
        future.set_exception(failure)
        future.exception()  # marks it as retrieved: a caller that was cancelled does not retrieve it


def _reason_of(error: OSError) -> str:
    """Why there is no connection; asyncio's own text for the kernel's errors repeats the address."""
    is_of_the_kernel = error.errno is not None and error.errno > 0
    return os.strerror(error.errno or 0).lower() if is_of_the_kernel else (error.strerror or str(error)).lower()


class WireConnection:
    """harness.model.session.Connection over TCP; calls may overlap."""

    def __init__(self, host: str, port: int, client_id: str, credentials: Plain | None = None) -> None:
        """With credentials, each connection is authenticated when it is opened; a refusal is NotAuthenticated."""
        self._host, self._port, self._client_id, self._credentials = host, port, client_id, credentials
        self._link: _Link | None = None
        self._opening = asyncio.Lock()

    async def call(self, request: Any, timeout_ms: int) -> Any:
        """Send one request and return its response, both kio entities. Raises NotSent or NoAnswer."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        link = await self._opened(deadline)
        return await self._exchange(link, request, deadline)

    async def call_latest(self, api_key: int, values: Mapping[str, Any], timeout_ms: int) -> Any:
        """As call, with a request of the newest version that both sides support, filled from plain values."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        link = await self._opened(deadline)
        version = await self._newest(link, api_key, deadline)
        return await self._exchange(link, codec.build(api_key, version, "request", values), deadline)

    async def newest_version(self, api_key: int, timeout_ms: int) -> int:
        """The newest version of an API that both sides support. Raises NotSent if there is none."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        return await self._newest(await self._opened(deadline), api_key, deadline)

    async def negotiate(self, timeout_ms: int = 2000) -> Mapping[int, range]:
        """The versions that the peer supports, by API key; requested once per connection."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        return await self._ranges(await self._opened(deadline), deadline)

    def abort(self) -> None:
        """Close at once; pending calls end in NoAnswer."""
        if self._link is not None:
            self._link.abort("the connection was closed")
            self._link = None

    async def close(self) -> None:
        """Close the connection; a later call opens it again."""
        self.abort()

    async def _opened(self, deadline: float) -> _Link:
        async with self._opening:
            if self._link is None or not self._link.is_usable:
                self._link = await self._authenticated(await self._open(deadline), deadline)
            return self._link

    async def _authenticated(self, link: _Link, deadline: float) -> _Link:
        async def call(api_key: int, values: Mapping[str, Any]) -> Any:
            version = await self._newest(link, api_key, deadline)
            return await self._exchange(link, codec.build(api_key, version, "request", values), deadline)

        try:
            if self._credentials is not None:
                await self._credentials.authenticate(call)
        except BaseException as error:
            link.abort("the connection was not authenticated")
            peer = f"{self._host}:{self._port}"
            if isinstance(error, NotAuthenticated):
                raise NotAuthenticated(f"connecting to {peer}: {error}") from error
            if isinstance(error, PeerFailure):
                raise NotSent(f"connecting to {peer}: {error}") from error
            raise
        return link

    async def _open(self, deadline: float) -> _Link:
        peer = f"{self._host}:{self._port}"
        try:
            async with asyncio.timeout_at(deadline):
                reader, writer = await asyncio.open_connection(self._host, self._port)
        except TimeoutError as error:
            raise NotSent(f"connecting to {peer}: timed out") from error
        except OSError as error:
            raise NotSent(f"connecting to {peer}: {_reason_of(error)}") from error
        except (ValueError, OverflowError) as error:  # a name that cannot be looked up, a port that cannot be
            raise NotSent(f"connecting to {peer}: expected a host's name and a port") from error
        endpoint = writer.get_extra_info("socket")
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return _Link(reader, writer, peer)

    async def _exchange(self, link: _Link, request: Any, deadline: float) -> Any:
        # At most ApiVersions was sent on this link since it was found usable, so no byte of the request has been.
        if not link.is_usable:
            raise NotSent(f"sending to {self._host}:{self._port}: the connection broke before the request was sent")
        response = link.send(request, self._client_id)
        try:
            async with asyncio.timeout_at(deadline):
                return await response
        except TimeoutError as error:
            self._discard(link)
            raise NoAnswer(f"waiting for {self._host}:{self._port}: timed out") from error
        except asyncio.CancelledError:
            self._discard(link)
            raise

    def _discard(self, link: _Link) -> None:
        link.abort("the connection was closed")
        if self._link is link:
            self._link = None

    async def _newest(self, link: _Link, api_key: int, deadline: float) -> int:
        remote = (await self._ranges(link, deadline)).get(api_key, range(0))
        local = codec.versions(api_key)
        common = range(max(remote.start, local.start), min(remote.stop, local.stop))
        if not common:
            peer = f"{self._host}:{self._port}"
            raise NotSent(f"sending to {peer}: no version of API {api_key} is supported by both sides")
        return common[-1]

    async def _ranges(self, link: _Link, deadline: float) -> Mapping[int, range]:
        if link.ranges is None:
            try:
                link.ranges = await self._request_ranges(link, deadline)
            except NoAnswer as error:
                raise NotSent(f"requesting ApiVersions: {error}") from error
        return link.ranges

    async def _request_ranges(self, link: _Link, deadline: float) -> Mapping[int, range]:
        client = {"client_software_name": "splitbrain", "client_software_version": "0"}
        version = codec.versions(codec.API_VERSIONS)[-1]
        response = await self._exchange(link, codec.build(codec.API_VERSIONS, version, "request", client), deadline)
        if response.error_code == codec.ErrorCode.unsupported_version:
            request = codec.build(codec.API_VERSIONS, 0, "request", {})
            response = await self._exchange(link, request, deadline)
        return {key.api_key: range(key.min_version, key.max_version + 1) for key in response.api_keys}
