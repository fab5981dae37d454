"""Packets of single links shaped by the kernel's own queueing discipline, tc netem, where the kernel has one.

What may live here: words for tc, and the trial that shows whether it takes them. What may not: measuring the effect.

What goes to a node leaves the bridge by the node's port, so a port has one class of htb for each sender whose packets
to that node are shaped, found by the sender's address (u32), with a netem of its own beneath it. What no filter names
passes htb untouched.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.model import EnvironmentFailure
from harness.model.faults.packets import PacketShape
from nodes.hosts.commands import run
from nodes.switch.process import ShapedPort

PACKETS_WAITING_MAX = 10_000


class Netem:
    """The links' shapes as queueing disciplines on the ports of the bridge."""

    technique = "tc netem"

    def __init__(self) -> None:
        self._ports: set[str] = set()

    async def apply(self, links: Sequence[ShapedPort]) -> None:
        """Have these links shaped and no others."""
        await self.end()
        self._ports = {link.to_port for link in links}
        await _tc([line for port in sorted(self._ports) for line in port_lines(port, links)])

    async def end(self) -> None:
        """Remove every queueing discipline of ours."""
        ports, self._ports = self._ports, set()
        await _tc([f"qdisc del dev {port} root" for port in sorted(ports)])


async def takes_netem(port: str) -> bool:
    """Whether tc and the kernel take every word that is needed, tried on a port and undone."""
    everything = PacketShape(1, 1, "normal", 0.01, 0.01, 0.01, 0.01, 1000)
    trial = Netem()
    try:
        await trial.apply([ShapedPort("", "192.0.2.1", port, "192.0.2.2", "", everything)])
    except EnvironmentFailure:
        await _undo_trial(port)
        return False
    await trial.end()
    return True


async def _undo_trial(port: str) -> None:
    """Remove what the kernel took of a trial before it refused; it may have taken nothing."""
    if "htb" in await run(["tc", "qdisc", "show", "dev", port]):
        await _tc([f"qdisc del dev {port} root"])


def port_lines(port: str, links: Sequence[ShapedPort]) -> list[str]:
    """tc's lines for one port: classes count from 1:1, and 1:0 is where unfiltered packets pass."""
    lines = [f"qdisc add dev {port} root handle 1: htb"]
    for number, link in enumerate((link for link in links if link.to_port == port), start=1):
        lines += [
            f"class add dev {port} parent 1: classid 1:{number:x} htb rate 10gbit quantum 60000",
            f"qdisc add dev {port} parent 1:{number:x} handle {number + 1:x}: netem {_words(link.shape)}",
            f"filter add dev {port} parent 1: protocol ip prio 1 u32 match ip src {link.from_address}/32"
            f" flowid 1:{number:x}",
        ]
    return lines


def _words(shape: PacketShape) -> str:
    """A shape as netem's parameters; its reorder wants a delay, and pareto the table of that name."""
    words = [f"limit {PACKETS_WAITING_MAX}"]
    if shape.delay_ms:
        words.append(f"delay {shape.delay_ms:g}ms")
        if shape.jitter_ms:
            words.append(f"{shape.jitter_ms:g}ms")
            words += [f"distribution {shape.distribution}"] if shape.distribution != "uniform" else []
    chances = {"loss": shape.loss, "duplicate": shape.duplicate, "reorder": shape.reorder, "corrupt": shape.corrupt}
    words += [f"{name} {chance * 100:g}%" for name, chance in chances.items() if chance]
    if shape.rate_kbit_per_second is not None:
        words.append(f"rate {shape.rate_kbit_per_second:g}kbit")
    return " ".join(words)


async def _tc(lines: Sequence[str]) -> None:
    if lines:
        await run(["tc", "-batch", "-"], "\n".join(lines) + "\n")
