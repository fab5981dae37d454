"""ZooKeeper's sessions: which brokers are registered, and which of them is the controller.

A broker's registration (/brokers/ids/N) and the controller's (/controller) are ephemeral nodes: ZooKeeper deletes them
with the session that created them. The four-letter command `dump` lists the ephemeral nodes of each session, so the
controller is the broker whose session has both.

    parse_dump("…\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x1…:\n\t/controller\n\t/brokers/ids/2\n")
    # Sessions(brokers=frozenset({2}), controller=2)
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass

COMMAND = b"dump"
BEGIN = "Sessions with Ephemerals"
CONTROLLER = "/controller"
_BROKER = re.compile(r"^/brokers/ids/(\d+)$")


@dataclass(frozen=True, slots=True)
class Sessions:
    """The brokers that are registered, and the one that is the controller; None if there is none."""

    brokers: frozenset[int]
    controller: int | None = None


async def request_sessions(address: str, port: int, timeout_seconds: float) -> Sessions | None:
    """What ZooKeeper at this address answers; None if it does not answer in time, or does not serve requests."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(COMMAND)
                return parse_dump((await reader.read()).decode(errors="replace"))
            finally:
                writer.close()
    return None


def parse_dump(text: str) -> Sessions | None:
    """The sessions in the output of `dump`; None if it has none of its parts, as while ZooKeeper starts."""
    _, begin, after = text.partition(BEGIN)
    if not begin:
        return None
    brokers: set[int] = set()
    controller: int | None = None
    for session in re.split(r"^0x[0-9a-f]+:$", after, flags=re.MULTILINE)[1:]:
        paths = [line.strip() for line in session.splitlines() if line.startswith("\t")]
        registered = [int(match.group(1)) for path in paths if (match := _BROKER.match(path))]
        brokers |= set(registered)
        if CONTROLLER in paths and registered:
            controller = registered[0]
    return Sessions(frozenset(brokers), controller)
