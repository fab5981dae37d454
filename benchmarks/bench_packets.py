"""How exact the delay of a shaped link is, and how much a shape without effect slows a link down.

The round trip is that of a small datagram, with both directions shaped; the stream is TCP, with the direction of the
data shaped. The baseline is the same on links without a shape.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from tabulate import tabulate

from harness.model.faults.packets import PacketShape
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.packets.packets import NamespacePackets
from nodes.hosts.sandbox import Privilege, enclose
from nodes.proxy.namespaces import Namespace

BOTH = ((1, 2), (2, 1))
NO_EFFECT = PacketShape(loss=1e-12)
DELAYS_MS = (5, 50, 200)
PROBES, ROUND_TRIPS, STREAM_BYTES = 500, 2000, 64 << 20
PORT = 9000


async def measure(directory: Path) -> tuple[str, list[tuple[str, float, str]]]:
    async with NamespaceHosts.up(directory, nodes=2) as hosts, NamespacePackets.up(hosts, seed=1) as packets:
        rows = []
        for delay_ms in DELAYS_MS:
            await packets.shape([(1, 2)], PacketShape(delay_ms=delay_ms))
            delays = sorted((await packets.read({(1, 2): PROBES}))[1, 2].delays_ms)
            for name, value in (("median", statistics.median(delays)), ("99 %", delays[int(len(delays) * 0.99)])):
                rows.append((f"{delay_ms} ms requested, {name}", value, "ms"))
        for name, shaped in (("without a shape", False), ("shaped to no effect", True)):
            await packets.clear()
            if shaped:
                await packets.shape(BOTH, NO_EFFECT)
            rows.append((f"round trip, {name}", await round_trip_us(hosts), "us"))
            rows.append((f"stream, {name}", await stream_mb_per_second(hosts), "MB/s"))
        return packets.technique, rows


async def round_trip_us(hosts: NamespaceHosts) -> float:
    """The median of datagrams from host 1 to an echo on host 2 and back."""
    here, there = [await _socket(hosts, node, socket.SOCK_DGRAM) for node in (1, 2)]

    def echo() -> None:
        for _ in range(ROUND_TRIPS):
            data, sender = there.recvfrom(100)
            there.sendto(data, sender)

    times = []
    with here, there:
        thread = threading.Thread(target=echo, daemon=True)
        thread.start()
        for _ in range(ROUND_TRIPS):
            began = time.perf_counter()
            here.sendto(b"x", there.getsockname())
            here.recv(100)
            times.append((time.perf_counter() - began) * 1e6)
        thread.join()
    return statistics.median(times)


async def stream_mb_per_second(hosts: NamespaceHosts) -> float:
    source, sink = [await _socket(hosts, node, socket.SOCK_STREAM) for node in (1, 2)]
    with source, sink:
        sink.listen()
        source.connect(sink.getsockname())
        arriving, _ = sink.accept()
        with arriving:
            sender = threading.Thread(target=source.sendall, args=(bytes(STREAM_BYTES),), daemon=True)
            began, left = time.perf_counter(), STREAM_BYTES
            sender.start()
            while left:
                left -= len(arriving.recv(1 << 18))
            sender.join()
            return STREAM_BYTES / 1e6 / (time.perf_counter() - began)


async def _socket(hosts: NamespaceHosts, node: int, kind: socket.SocketKind) -> socket.socket:
    def make() -> socket.socket:
        made = socket.socket(socket.AF_INET, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((hosts.views[node].address, PORT))
        return made

    namespace = Namespace(hosts.network_namespace(node))
    try:
        return await namespace.make(make)
    finally:
        namespace.close()


def main() -> None:
    if len(sys.argv) == 1:
        os.execvp("setpriv", enclose([sys.executable, __file__, "inside"], Privilege.detect()))
    with tempfile.TemporaryDirectory(prefix="splitbrain-packets-") as directory:
        technique, rows = asyncio.run(measure(Path(directory)))
    print(tabulate(rows, headers=(technique, "", ""), floatfmt=".1f"))


if __name__ == "__main__":
    main()
