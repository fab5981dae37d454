"""The switch's process as its starter sees it: start it, tell it all links, end it.

What may live here: the process, the line to it, and the nft table that keeps the bridge from forwarding what the switch
sends. What may not: nodes.
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
ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ShapedPort:
    """A link as the bridge sees it: ports are the names of its ends' interfaces, addresses the nodes' IPv4 ones."""

    from_port: str
    from_address: str
    to_port: str
    to_address: str
    seed: str
    shape: PacketShape


class UserSpaceSwitch:
    """The switch from its first link to its end. It lives in the network namespace of whoever starts it."""

    technique = "user-space switch"

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def apply(self, links: Sequence[ShapedPort]) -> None:
        """Have these links shaped and no others. Raises EnvironmentFailure where a port or nft refuses.

        A packet that is on its way just then may come twice or, when a link is given up, late, but is not lost: the
        switch reads a link before the bridge stops forwarding it, and until after it forwards again.
        """
        if not links:
            await self._forward_all()
        if links or self._process is not None:
            await self._replace([_as_json(link) for link in links])
        if links:
            await run(["nft", "-f", "-"], _table(links))

    async def end(self) -> None:
        """Forward everything again and end the process, which the end of its standard input does."""
        await self._forward_all()
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), ANSWER_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._process = None

    async def _forward_all(self) -> None:
        await run(["nft", "-f", "-"], _forget())

    async def _replace(self, links: list[dict[str, Any]]) -> None:
        process = await self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(links).encode() + b"\n")
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), ANSWER_SECONDS)
        except (OSError, TimeoutError) as error:
            raise EnvironmentFailure(f"asking the packet switch: no answer ({error or 'in time'})") from error
        if not line:
            raise EnvironmentFailure("asking the packet switch: it has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise EnvironmentFailure(f"asking the packet switch: {answer['error']}")

    async def _started(self) -> asyncio.subprocess.Process:
        """The process; a new one where it has ended, so that a killed switch can still be healed."""
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


def _forget() -> str:
    return f"add table bridge {TABLE}\ndelete table bridge {TABLE}\n"


def _table(links: Sequence[ShapedPort]) -> str:
    """nft's own words: in place of our table, one that keeps the bridge from forwarding these links."""
    pairs = ", ".join(f"{link.from_address} . {link.to_address}" for link in links)
    return f"""{_forget()}
table bridge {TABLE} {{
  set shaped {{ type ipv4_addr . ipv4_addr; elements = {{ {pairs} }} }}
  chain passing {{ type filter hook forward priority 0; ip saddr . ip daddr @shaped counter drop; }}
}}
"""
