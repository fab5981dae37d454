"""Shapes the packets of single links with the kernel's queueing discipline netem, if the kernel has it.

Contains tc commands and the trial that shows whether tc and the kernel support them. Does not measure the effect.

Packets to a node leave the bridge through the node's port. The port has one htb class for each sender whose packets to
that node are shaped, selected by the sender's address (u32), with its own netem below. Unmatched packets pass htb
unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.model import EnvironmentFailure
from harness.model.faults.packets import PacketShape
from nodes.hosts.commands import run
from nodes.switch.process import ShapedPort

PACKETS_WAITING_MAX = 10_000


class Netem:
    """Shapes links with queueing disciplines on the bridge's ports."""

    technique = "tc netem"

    def __init__(self) -> None:
        self._ports: set[str] = set()

    async def apply(self, links: Sequence[ShapedPort]) -> None:
        """Shape these links and no others."""
        await self.end()
        self._ports = {link.to_port for link in links}
        await _tc([line for port in sorted(self._ports) for line in port_lines(port, links)])

    async def end(self) -> None:
        """Remove our queueing disciplines."""
        ports, self._ports = self._ports, set()
        await _tc([f"qdisc del dev {port} root" for port in sorted(ports)])


async def supports_netem(port: str) -> bool:
    """Whether tc and the kernel support every parameter we use; tried on a port and undone."""
    all_parameters = PacketShape(1, 1, "normal", 0.01, 0.01, 0.01, 0.01, 1000)
    trial = Netem()
    try:
        await trial.apply([ShapedPort("", "192.0.2.1", port, "192.0.2.2", "", all_parameters)])
    except EnvironmentFailure:
        await _undo_trial(port)
        return False
    await trial.end()
    return True


async def _undo_trial(port: str) -> None:
    """Remove the part of a trial that the kernel accepted before it refused the rest, if any."""
    if "htb" in await run(["tc", "qdisc", "show", "dev", port]):
        await _tc([f"qdisc del dev {port} root"])


def port_lines(port: str, links: Sequence[ShapedPort]) -> list[str]:
    """The tc commands for one port. Classes count from 1:1; unmatched packets pass through 1:0."""
    lines = [f"qdisc add dev {port} root handle 1: htb"]
    for number, link in enumerate((link for link in links if link.to_port == port), start=1):
        lines += [
            f"class add dev {port} parent 1: classid 1:{number:x} htb rate 10gbit quantum 60000",
            f"qdisc add dev {port} parent 1:{number:x} handle {number + 1:x}: netem {_parameters(link.shape)}",
            f"filter add dev {port} parent 1: protocol ip prio 1 u32 match ip src {link.from_address}/32"
            f" flowid 1:{number:x}",
        ]
    return lines


def _parameters(shape: PacketShape) -> str:
    """A shape as netem's parameters. netem's reorder needs a delay, and pareto its distribution table."""
    parameters = [f"limit {PACKETS_WAITING_MAX}"]
    if shape.delay_ms:
        parameters.append(f"delay {shape.delay_ms:g}ms")
        if shape.jitter_ms:
            parameters.append(f"{shape.jitter_ms:g}ms")
            parameters += [f"distribution {shape.distribution}"] if shape.distribution != "uniform" else []
    rates = {"loss": shape.loss, "duplicate": shape.duplicate, "reorder": shape.reorder, "corrupt": shape.corrupt}
    parameters += [f"{name} {rate * 100:g}%" for name, rate in rates.items() if rate]
    if shape.rate_kbit_per_second is not None:
        parameters.append(f"rate {shape.rate_kbit_per_second:g}kbit")
    return " ".join(parameters)


async def _tc(lines: Sequence[str]) -> None:
    if lines:
        await run(["tc", "-batch", "-"], "\n".join(lines) + "\n")
