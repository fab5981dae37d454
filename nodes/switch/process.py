"""The controller's handle on the switch's process: start it, configure its links, end it.

Contains the process, its control pipe, and the nft table that stops the bridge from forwarding shaped links. Does not
know nodes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.model import EnvironmentFailure
from harness.model.faults.packets import PacketShape
from nodes.hosts.commands import run

TABLE = "splitbrain_packets"
RESPONSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ShapedPort:
    """A shaped link as the bridge sees it: the interface names and IPv4 addresses of both ends."""

    from_port: str
    from_address: str
    to_port: str
    to_address: str
    seed: str
    shape: PacketShape


class UserSpaceSwitch:
    """A switch, started with its first link. It runs in the network namespace of the process that starts it."""

    technique = "user-space switch"

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def apply(self, links: Sequence[ShapedPort]) -> None:
        """Shape these links and no others. Raises EnvironmentFailure if a port or nft refuses.

        A packet in flight during the change may arrive twice or, when a shape is removed, late; it is not lost. The
        switch starts to read a link before the bridge stops forwarding it, and stops after the bridge forwards it
        again.
        """
        if not links:
            await self._forward_all()
        if links or self._process is not None:
            await self._replace([_as_json(link) for link in links])
        if links:
            await run(["nft", "-f", "-"], _table(links))

    async def end(self) -> None:
        """Make the bridge forward all links again and end the process by closing its standard input."""
        await self._forward_all()
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), RESPONSE_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._process = None

    async def _forward_all(self) -> None:
        await run(["nft", "-f", "-"], _delete_table())

    async def _replace(self, links: list[dict[str, Any]]) -> None:
        process = await self._ensure_process()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(links).encode() + b"\n")
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), RESPONSE_SECONDS)
        except (OSError, TimeoutError) as error:
            reason = error if str(error) else f"timed out after {RESPONSE_SECONDS:g} s"
            raise EnvironmentFailure(f"configuring the packet switch: no response: {reason}") from error
        if not line:
            raise EnvironmentFailure("configuring the packet switch: its process has ended")
        response = json.loads(line)
        if "error" in response:
            raise EnvironmentFailure(f"configuring the packet switch: {response['error']}")

    async def _ensure_process(self) -> asyncio.subprocess.Process:
        """The running process, or a new one, so that a killed switch can still be healed."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *[sys.executable, "-P", "-m", "nodes.switch.server"],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        return self._process


def _as_json(link: ShapedPort) -> dict[str, Any]:
    ends = {"from": link.from_port, "to": link.to_port, "address": link.to_address}
    return {**ends, "seed": link.seed, "shape": asdict(link.shape)}


def _delete_table() -> str:
    return f"add table bridge {TABLE}\ndelete table bridge {TABLE}\n"


def _table(links: Sequence[ShapedPort]) -> str:
    """The nft commands that replace our table by one that stops the bridge from forwarding these links."""
    pairs = ", ".join(f"{link.from_address} . {link.to_address}" for link in links)
    return f"""{_delete_table()}
table bridge {TABLE} {{
  set shaped {{ type ipv4_addr . ipv4_addr; elements = {{ {pairs} }} }}
  chain passing {{ type filter hook forward priority 0; ip saddr . ip daddr @shaped counter drop; }}
}}
"""
