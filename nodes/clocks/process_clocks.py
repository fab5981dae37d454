"""The Clocks capability of hosts whose processes the controller can access: installs, configures and removes the hook.

Installing and removing the hook each stop the process for about a millisecond. Every action depends only on the
process's memory, so a restart of the process or of the controller needs no special handling.

    clocks = ProcessClocks(processes.pid)
    await clocks.skew(2, ["realtime"], offset_ns=-5_000_000_000)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from harness.model import PeerFailure
from harness.model.hosts import Clock, ClockReading
from nodes.clocks.hook import CLOCKS, HOOK, HOOK_BYTES, ClockSetting, ClockSettings
from nodes.clocks.image import JUMP_BYTES, Image
from nodes.clocks.kernel_vdso import kernel_image, read_clocks, true_ns, true_reading
from nodes.clocks.target import Target

Change = Callable[[Clock, ClockSetting], ClockSetting]


class ProcessClocks:
    """harness.model.hosts.Clocks for nodes whose processes run on this machine and whose memory we may write."""

    def __init__(self, pid: Callable[[int], int]) -> None:
        """pid returns the process id of a node; it raises PeerFailure if the node is down."""
        self._pid = pid

    async def skew(self, node: int, clocks: Iterable[Clock], offset_ns: int) -> None:
        """Make these clocks show the true time plus offset_ns; replaces earlier skew and drift."""
        await self._change(node, clocks, lambda _clock, _current: ClockSetting(offset_ns=offset_ns))

    async def drift(self, node: int, clocks: Iterable[Clock], rate: float) -> None:
        """Make these clocks run at this rate (1 is normal, 0.2 is five times too slow), without a jump."""
        await self._change(node, clocks, lambda clock, current: current.at_rate(rate, true_ns(clock)))

    async def reset(self, node: int) -> None:
        """Restore the true clocks and remove the hook; does nothing if there is none."""
        await asyncio.to_thread(_remove, self._target(node))

    async def read(self, node: int) -> Mapping[Clock, ClockReading]:
        """The clocks as the process reads them, by the same code."""
        return _read(self._target(node))

    async def _change(self, node: int, clocks: Iterable[Clock], change: Change) -> None:
        await asyncio.to_thread(_set, self._target(node), tuple(clocks), change)

    def _target(self, node: int) -> Target:
        kernel_image()
        return Target(self._pid(node), f"n{node}")


def _set(target: Target, clocks: tuple[Clock, ...], change: Change) -> None:
    """Change the settings of some clocks; installs the hook first if necessary."""
    hook_at = kernel_image().hook_at
    if not _is_hooked(target, target.read()):
        _install(target)
    settings = ClockSettings.read(target.read()[hook_at : hook_at + HOOK_BYTES])
    changes = {clock: change(clock, settings.clocks[clock]) for clock in clocks}
    target.write(*((hook_at + at, patch) for at, patch in settings.patches(changes)))


def _install(target: Target) -> None:
    image = kernel_image()
    with target.stopped_outside(_jump_interiors(image)):
        target.write((image.hook_at, HOOK), *image.jumps().items())


def _remove(target: Target) -> None:
    """Restore the functions, then clear the hook once no thread is in it. Completes an interrupted removal."""
    image = kernel_image()
    current = target.read()
    if current == image.pristine:
        return
    if _is_hooked(target, current):
        with target.stopped_outside(_jump_interiors(image)):
            target.write(*image.originals().items())
    with target.stopped_outside([range(image.hook_at, image.hook_at + HOOK_BYTES)]):
        target.write((image.hook_at, bytes(HOOK_BYTES)))


def _read(target: Target) -> dict[Clock, ClockReading]:
    image = target.read()
    if _is_hooked(target, image):
        return read_clocks(image)
    return {clock: true_reading(clock) for clock in CLOCKS}


def _is_hooked(target: Target, image: bytes) -> bool:
    """Whether an image has the hook. Raises PeerFailure if it was changed by anyone else."""
    if kernel_image().is_untouched(image):
        return False
    if not kernel_image().is_hooked(image):
        raise PeerFailure(f"skewing {target.name}'s clock: its vDSO is neither the kernel's nor hooked by us")
    return True


def _jump_interiors(image: Image) -> list[range]:
    """The addresses where a thread that has entered a function would continue in the middle of a jump."""
    return [range(at + 1, at + JUMP_BYTES) for at in image.functions.values()]
