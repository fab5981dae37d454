"""The process of a layer between a node and its files, as its starter sees it: start it, tell it how to behave, end it.

What may live here: the process, the line to it and its mount. What may not: what it does with requests.
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

ANSWER_SECONDS = 10.0


@dataclass(slots=True)
class LayerProcess:
    """A layer from its start to its end, mounted at `mounted` on what is in `beneath`."""

    process: asyncio.subprocess.Process
    mounted: Path

    @classmethod
    async def start(cls, beneath: Path, mounted: Path, seed: str) -> LayerProcess:
        """It is mounted when this returns. Raises EnvironmentFailure with its words where it cannot be."""
        mounted.mkdir(parents=True, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-P", "-m", "nodes.hosts.disks.layer", str(beneath), str(mounted), seed],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        layer = cls(process, mounted)
        await layer._answered()
        return layer

    async def set_fault_mode(self, how: FaultMode) -> None:
        """From now on it treats requests so. Raises EnvironmentFailure where it is gone."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(how)).encode() + b"\n")
        await self._answered()

    async def end(self) -> None:
        """Unmount it and end it; a lazy unmount, as whoever still has a file open there is to lose it."""
        assert self.process.stdin is not None
        await run(["umount", "--lazy", str(self.mounted)])
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), ANSWER_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    async def _answered(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), ANSWER_SECONDS)
        except (OSError, TimeoutError) as error:
            raise EnvironmentFailure(f"asking the layer on {self.mounted}: no answer ({error or 'in time'})") from error
        if not line:
            words = (await self.process.stderr.read()).decode(errors="replace").strip().splitlines()
            raise EnvironmentFailure(words[-1] if words else f"asking the layer on {self.mounted}: it has ended")
