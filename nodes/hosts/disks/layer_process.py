"""The controller's handle on a fault layer's process: start it, set its fault mode, end it.

Contains the process, its control pipe and its mount. Does not handle file requests.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.model import EnvironmentFailure
from nodes.hosts.commands import run
from nodes.hosts.disks.layer import FaultMode

RESPONSE_SECONDS = 10.0


@dataclass(slots=True)
class LayerProcess:
    """A running layer, mounted at mount_point."""

    process: asyncio.subprocess.Process
    mount_point: Path

    @classmethod
    async def start(cls, backing: Path, mount_point: Path, seed: str) -> LayerProcess:
        """Start a layer over the directory `backing`; it is mounted when this returns.

        Raises EnvironmentFailure with the layer's message if it cannot be mounted.
        """
        mount_point.mkdir(parents=True, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-P", "-m", "nodes.hosts.disks.layer", str(backing), str(mount_point), seed],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        layer = cls(process, mount_point)
        await layer._await_response()
        return layer

    async def set_fault_mode(self, mode: FaultMode) -> None:
        """Set the fault mode for all requests from now on. Raises EnvironmentFailure if the layer has ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(mode)).encode() + b"\n")
        await self._await_response()

    async def end(self) -> None:
        """Unmount the layer and end its process. The unmount is lazy: processes with open files get errors."""
        assert self.process.stdin is not None
        await run(["umount", "--lazy", str(self.mount_point)])
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), RESPONSE_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    async def _await_response(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), RESPONSE_SECONDS)
        except (OSError, TimeoutError) as error:
            reason = error if str(error) else f"timed out after {RESPONSE_SECONDS:g} s"
            raise EnvironmentFailure(f"controlling the layer on {self.mount_point}: no response: {reason}") from error
        if not line:
            lines = (await self.process.stderr.read()).decode(errors="replace").strip().splitlines()
            message = lines[-1] if lines else f"controlling the layer on {self.mount_point}: its process has ended"
            raise EnvironmentFailure(message)
