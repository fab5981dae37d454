"""Connections: NotSent only if no byte can have been sent, NoAnswer if some may have been."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from harness.model.session import NoAnswer, NotSent
from nodes.wire import codec
from nodes.wire.connection import WireConnection

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REQUEST = codec.build(codec.DESCRIBE_QUORUM, 0, "request", {"topics": []})


@contextlib.asynccontextmanager
async def peer(handle: Handle) -> AsyncIterator[WireConnection]:
    """A connection to a server that handles each connection with this function."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(EOFError, OSError, asyncio.CancelledError):
            await handle(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connection = WireConnection("127.0.0.1", server.sockets[0].getsockname()[1], "test")
    try:
        yield connection
    finally:
        await connection.close()
        server.close()


async def read_request(reader: asyncio.StreamReader) -> codec.RequestFrame:
    length = codec.frame_length(await reader.readexactly(4))
    return codec.decode_request(await reader.readexactly(length))


def respond(writer: asyncio.StreamWriter, correlation_id: int) -> None:
    values = {"error_code": codec.ErrorCode.none, "topics": []}
    writer.write(codec.encode_response(codec.build(codec.DESCRIBE_QUORUM, 0, "response", values), correlation_id))


def test_call_to_a_closed_port_is_not_sent() -> None:
    async def scenario() -> None:
        async with peer(lambda _reader, _writer: asyncio.sleep(0)) as connection:
            port = connection._port
        with pytest.raises(NotSent, match=f"connecting to 127.0.0.1:{port}: connection refused"):
            await WireConnection("127.0.0.1", port, "test").call(REQUEST, 1_000)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("host", "port"),
    [("a..b", 1), ("a" * 64, 1), ("a\0b", 1), ("127.0.0.1", 70_000)],
    ids=["empty", "long", "null", "port"],
)
def test_call_to_an_impossible_address_is_not_sent(host: str, port: int) -> None:
    with pytest.raises(NotSent, match="connecting to"):
        asyncio.run(WireConnection(host, port, "test").call(REQUEST, 1_000))


def test_call_to_a_peer_that_closes_the_connection_has_no_answer() -> None:
    async def handle(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async def scenario() -> None:
        async with peer(handle) as connection:
            with pytest.raises(NoAnswer, match="the connection broke"):
                await connection.call(REQUEST, 1_000)

    asyncio.run(scenario())


def test_call_past_its_deadline_has_no_answer_and_closes_the_connection() -> None:
    served = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        request = await read_request(reader)
        if served > 1:
            respond(writer, request.correlation_id)
        await reader.read()

    async def scenario() -> None:
        async with peer(handle) as connection:
            with pytest.raises(NoAnswer, match="timed out"):
                await connection.call(REQUEST, 50)
            assert (await connection.call(REQUEST, 1_000)).topics == ()
        assert served == 2

    asyncio.run(scenario())


def test_overlapping_calls_get_their_responses_by_correlation_id() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = [await read_request(reader) for _ in range(3)]
        for request in reversed(requests):
            respond(writer, request.correlation_id)
        await reader.read()

    async def scenario() -> None:
        async with peer(handle) as connection:
            responses = await asyncio.gather(*(connection.call(REQUEST, 1_000) for _ in range(3)))
        assert [response.topics for response in responses] == [()] * 3

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "garbage",
    [b"\xff\xff\xff\xff", b"\x00\x00\x00\x04\x00\x00\x00\x63", b"\x00\x00\x00\x06" + bytes(6)],
    ids=["invalid length", "unknown correlation id", "truncated response"],
)
def test_invalid_response_is_no_answer(garbage: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(garbage)
        await reader.read()

    async def scenario() -> None:
        async with peer(handle) as connection:
            with pytest.raises(NoAnswer):
                await connection.call(REQUEST, 1_000)

    asyncio.run(scenario())
