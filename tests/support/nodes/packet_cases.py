"""Test cases for packet faults, run inside a sandbox: each prints its result as one JSON line.

python packet_cases.py CASE DIRECTORY      (started by test_namespace_packets.py)
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import statistics
import sys
from collections.abc import Mapping
from dataclasses import asdict
from itertools import permutations
from pathlib import Path
from typing import Any

from harness.model.faults.packets import PacketReading, PacketShape
from harness.model.hosts import Link
from nodes.hosts.commands import run
from nodes.hosts.links import NamespaceLinks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.packets.packets import NamespacePackets
from nodes.proxy.namespaces import Namespace, outgoing

EVERY_LINK = tuple(permutations((1, 2, 3), 2))
SHAPES = {
    "delay": PacketShape(delay_ms=40),
    "uniform": PacketShape(delay_ms=40, jitter_ms=20),
    "normal": PacketShape(delay_ms=40, jitter_ms=10, distribution="normal"),
    "pareto": PacketShape(delay_ms=40, jitter_ms=10, distribution="pareto"),
    "loss": PacketShape(loss=0.3),
    "duplicate": PacketShape(duplicate=0.25),
    "reorder": PacketShape(delay_ms=40, reorder=0.25),
    "corrupt": PacketShape(corrupt=0.2),
    "bandwidth": PacketShape(rate_kbit_per_second=8000),
}
BURST = 120
STREAM_BYTES = 3_000_000
PORT = 9999


def report(**result: Any) -> None:
    print(json.dumps(result), flush=True)


def _summary(reading: PacketReading) -> dict[str, Any]:
    delays = sorted(reading.delays_ms) or [0.0]
    return {
        **asdict(reading),
        "delays_ms": None,
        "mean_ms": statistics.fmean(delays),
        "deviation_ms": statistics.pstdev(delays),
        "early": sum(delay < 20 for delay in delays),
    }


def _summaries(readings: Mapping[Link, PacketReading]) -> dict[str, Any]:
    return {f"{a}>{b}": _summary(reading) for (a, b), reading in readings.items()}


async def shapes(directory: Path) -> None:
    """The effect of each shape on its link and on the others."""
    async with NamespaceHosts.up(directory, nodes=3) as hosts, NamespacePackets.up(hosts, seed=7) as packets:
        results = {}
        for name, shape in SHAPES.items():
            await packets.shape([(1, 2)], shape)
            results[name] = _summaries(await packets.read(dict.fromkeys(EVERY_LINK, BURST)))
        await packets.clear()
        results["cleared"] = _summaries(await packets.read(dict.fromkeys(EVERY_LINK, BURST)))
        report(technique=packets.technique, results=results)


async def together(directory: Path) -> None:
    """Shapes on several links at once, the replacement of one, and a cut of a shaped link."""
    async with NamespaceHosts.up(directory, nodes=3) as hosts, NamespacePackets.up(hosts, seed=7) as packets:
        links = NamespaceLinks(hosts)
        await packets.shape([(1, 2), (3, 2)], PacketShape(delay_ms=30))
        await packets.shape([(2, 1)], PacketShape(delay_ms=60))
        first = _summaries(await packets.read(dict.fromkeys(EVERY_LINK, 20)))
        await packets.shape([(1, 2)], PacketShape(delay_ms=5))
        second = _summaries(await packets.read(dict.fromkeys(EVERY_LINK, 20)))
        await links.cut([(1, 2)])
        passing = await links.passes([(1, 2), (2, 1)])
        links.close()
        await packets.clear()
        await packets.clear()
        report(first=first, second=second, cut=[passing[(1, 2)], passing[(2, 1)]])


async def streams(directory: Path) -> None:
    """Whether a TCP stream arrives intact when packets are corrupted, dropped and duplicated."""
    async with NamespaceHosts.up(directory, nodes=2) as hosts, NamespacePackets.up(hosts, seed=7) as packets:
        await packets.shape([(1, 2), (2, 1)], PacketShape(delay_ms=1, loss=0.01, duplicate=0.05, corrupt=0.02))
        sent = os.urandom(STREAM_BYTES)
        arrived = await _stream(hosts, sent)
        await packets.clear()
        report(intact=hashlib.sha256(sent).hexdigest() == arrived, distinct=await _stream(hosts, b"x") != arrived)


async def _stream(hosts: NamespaceHosts, sent: bytes) -> str:
    """Send bytes from host 1 to host 2; the checksum of what arrived."""
    sink = await asyncio.create_subprocess_exec(
        *hosts.enter(2, [sys.executable, "-c", SINK, hosts.views[2].address, str(PORT)]),
        stdout=asyncio.subprocess.PIPE,
    )
    assert sink.stdout is not None
    assert await sink.stdout.readline() == b"listening\n"
    namespace = Namespace(hosts.network_namespace(1))
    source = await namespace.make(lambda: outgoing(hosts.views[1].address, marked=False))
    namespace.close()
    loop = asyncio.get_running_loop()
    with source:
        await loop.sock_connect(source, (hosts.views[2].address, PORT))
        await loop.sock_sendall(source, sent)
    arrived = (await sink.stdout.readline()).decode().strip()
    await sink.wait()
    return arrived


SINK = """
import hashlib, socket, sys
listening = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
stream, _ = listening.accept()
digest = hashlib.sha256()
while data := stream.recv(1 << 16):
    digest.update(data)
print(digest.hexdigest(), flush=True)
"""


async def left_behind(directory: Path) -> None:
    """The tables, queueing disciplines and processes while links are shaped, and after the block."""
    async with NamespaceHosts.up(directory, nodes=2) as hosts:
        async with NamespacePackets.up(hosts, seed=7) as packets:
            await packets.shape([(1, 2)], PacketShape(loss=0.5))
            during = await _traces()
        after = await _traces()
    report(during=during, after=after)


async def killed_switch(directory: Path) -> None:
    """Which packets pass while the switch is dead, and after heal."""
    async with NamespaceHosts.up(directory, nodes=2) as hosts, NamespacePackets.up(hosts, seed=7) as packets:
        await packets.shape([(1, 2)], PacketShape(delay_ms=1))
        pids = [int(path.name) for path in Path("/proc").glob("[0-9]*") if b"nodes.switch" in _command(path)]
        for pid in pids:
            os.kill(pid, 9)
        dead = _summaries(await packets.read({(1, 2): 10, (2, 1): 10}))
        await packets.clear()
        healed = _summaries(await packets.read({(1, 2): 10, (2, 1): 10}))
        report(switches=len(pids), dead=dead, healed=healed)


async def _traces() -> dict[str, bool]:
    tables = await run(["nft", "list", "tables"])
    queues = await run(["tc", "qdisc", "show"])
    switches = [path for path in Path("/proc").glob("[0-9]*") if b"nodes.switch" in _command(path)]
    return {"table": "splitbrain_packets" in tables, "queue": "netem" in queues, "switch": bool(switches)}


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


CASES = {case.__name__: case for case in (shapes, together, streams, left_behind, killed_switch)}

if __name__ == "__main__":
    asyncio.run(CASES[sys.argv[1]](Path(sys.argv[2])))
