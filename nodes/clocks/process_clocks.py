"""The Clocks capability of hosts whose processes the controller sees: the hook goes in, is set, and comes out again.

A process is stopped twice, for a millisecond: when the hook goes in, and when it comes out. What is done depends on
the process's memory alone, so that a process that began anew, or a controller that did, is no special case.

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
from nodes.clocks.own import kernel_image, read_clocks, true_ns, true_reading
from nodes.clocks.target import Target

Change = Callable[[Clock, ClockSetting], ClockSetting]


class ProcessClocks:
    """harness.model.hosts.Clocks where the controller sees the nodes' processes and may write their memory."""

    def __init__(self, pid: Callable[[int], int]) -> None:
        """pid tells a node's process; it raises PeerFailure where the node is down."""
        self._pid = pid

    async def skew(self, node: int, clocks: Iterable[Clock], offset_ns: int) -> None:
        """From now on these clocks show the true time and offset_ns more, whatever they showed before."""
        await self._change(node, clocks, lambda _clock, _before: ClockSetting(offset_ns=offset_ns))

    async def drift(self, node: int, clocks: Iterable[Clock], rate: float) -> None:
        """From now on these clocks go at this rate (1 as they should, 0.2 five times too slow), without a leap."""
        await self._change(node, clocks, lambda clock, before: before.at_rate(rate, true_ns(clock)))

    async def reset(self, node: int) -> None:
        """The process reads true clocks again, and nothing of ours is left in it; harmless where none is."""
        await asyncio.to_thread(_remove, self._target(node))

    async def read(self, node: int) -> Mapping[Clock, ClockReading]:
        """What the process is shown, by the code that it reads its clocks with."""
        return _read(self._target(node))

    async def _change(self, node: int, clocks: Iterable[Clock], change: Change) -> None:
        await asyncio.to_thread(_set, self._target(node), tuple(clocks), change)

    def _target(self, node: int) -> Target:
        kernel_image()
        return Target(self._pid(node), f"n{node}")


def _set(target: Target, clocks: tuple[Clock, ...], change: Change) -> None:
    """Put the settings of some clocks in force, and first the hook where it is not in place."""
    hook_at = kernel_image().hook_at
    if not _is_hooked(target, target.read()):
        _install(target)
    settings = ClockSettings.read(target.read()[hook_at : hook_at + HOOK_BYTES])
    changes = {clock: change(clock, settings.clocks[clock]) for clock in clocks}
    target.write(*((hook_at + at, patch) for at, patch in settings.followed_by(changes)))


def _install(target: Target) -> None:
    image = kernel_image()
    with target.stopped_outside(_middles(image)):
        target.write((image.hook_at, HOOK), *image.jumps().items())


def _remove(target: Target) -> None:
    """The functions first; the hook once no thread is in it. Harmless where it was begun and not ended before."""
    image = kernel_image()
    now = target.read()
    if now == image.pristine:
        return
    if _is_hooked(target, now):
        with target.stopped_outside(_middles(image)):
            target.write(*image.originals().items())
    with target.stopped_outside([range(image.hook_at, image.hook_at + HOOK_BYTES)]):
        target.write((image.hook_at, bytes(HOOK_BYTES)))


def _read(target: Target) -> dict[Clock, ClockReading]:
    image = target.read()
    if _is_hooked(target, image):
        return read_clocks(image)
    return {clock: true_reading(clock) for clock in CLOCKS}


def _is_hooked(target: Target, image: bytes) -> bool:
    """Raises PeerFailure where somebody else has changed the process's vDSO."""
    if kernel_image().is_untouched(image):
        return False
    if not kernel_image().is_hooked(image):
        raise PeerFailure(f"moving {target.name}'s clock: its vDSO is neither the kernel's nor hooked by us")
    return True


def _middles(image: Image) -> list[range]:
    """Where a thread has begun a function and would go on in the midst of a jump."""
    return [range(at + 1, at + JUMP_BYTES) for at in image.functions.values()]
