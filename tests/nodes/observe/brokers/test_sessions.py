"""ZooKeeper's sessions in the output of its command `dump` (3.8.4)."""

from __future__ import annotations

import asyncio

import pytest

from nodes.observe.brokers.sessions import Sessions, parse_dump, request_sessions

HEAD = """\
SessionTracker dump:
Session Sets (2)/(2):
1 expire at Thu Jan 01 00:02:09 UTC 1970:
\t0x1000a1b2c3d0000
1 expire at Thu Jan 01 00:02:10 UTC 1970:
\t0x1000a1b2c3d0001
ephemeral nodes dump:
"""
TAIL = """\
Connections dump:
Connections Sets (1)/(1):
1 expire at Sun Nov 22 08:42:25 UTC 2026:
\tip: /10.77.0.1:44402 sessionId: 0x1000a1b2c3d0000
"""
DUMPS = {
    # name: the ephemeral nodes, and the sessions
    "two brokers": (
        "Sessions with Ephemerals (2):\n0x1000a1b2c3d0000:\n\t/brokers/ids/1\n0x1000a1b2c3d0001:\n"
        "\t/controller\n\t/brokers/ids/2\n",
        Sessions(frozenset({1, 2}), 2),
    ),
    "a broker before it is elected": (
        "Sessions with Ephemerals (1):\n0x1000a1b2c3d0000:\n\t/brokers/ids/1\n",
        Sessions(frozenset({1})),
    ),
    "a controller of a broker that is not registered yet": (
        "Sessions with Ephemerals (1):\n0x1000a1b2c3d0000:\n\t/controller\n",
        Sessions(frozenset()),
    ),
    "no broker": ("Sessions with Ephemerals (0):\n", Sessions(frozenset())),
}


@pytest.mark.parametrize(("ephemerals", "sessions"), DUMPS.values(), ids=DUMPS)
def test_sessions_are_read(ephemerals: str, sessions: Sessions) -> None:
    assert parse_dump(HEAD + ephemerals + TAIL) == sessions


@pytest.mark.parametrize("text", ["", "This ZooKeeper instance is not currently serving requests\n"])
def test_answer_without_sessions_is_none(text: str) -> None:
    assert parse_dump(text) is None


def test_zookeeper_that_does_not_answer_is_none() -> None:
    async def silent_server() -> Sessions | None:
        server = await asyncio.start_server(lambda _reader, _writer: asyncio.sleep(5), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        answer = await request_sessions("127.0.0.1", port, timeout_seconds=0.05)
        server.close()
        return answer or await request_sessions("127.0.0.1", port, timeout_seconds=0.05)

    assert asyncio.run(silent_server()) is None
