"""What the proxy adds to a round trip: the same frames between two namespaces, direct and through the proxy, in turns.

In a sandbox, node 1 sends requests and node 2 answers, both with blocking sockets, one request at a time. The direct
connection carries the proxy's mark, so that both ways are measured in the same seconds, in alternating batches. The
proxy has three settings: no rule; a rule that these frames do not match; and that rule while each RPC is recorded.

    .venv/bin/python benchmarks/bench_proxy.py [ROUND_TRIPS]
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tabulate import tabulate

from harness.model.faults.rpc import DROP, Api, RpcMatch, RpcRule
from harness.model.layouts import CONTROLLER_PORT
from nodes.hosts.commands import run
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.sandbox import Privilege, enclose
from nodes.proxy.namespaces import outgoing
from nodes.proxy.rpcs import NamespaceRpcs, Recording
from nodes.wire import codec

BATCH = 250
ROUND_TRIPS = 3_000
RULE = RpcRule("pre-votes", RpcMatch((Api.VOTE,), pre_vote=True), DROP)
SETTINGS = [("no rule", [], False), ("a rule", [RULE], False), ("a rule, recorded", [RULE], True)]
FETCH = {"max_wait": 500, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
REQUESTS = {
    "ApiVersions, 400 B back": codec.encode_request(codec.build(Api.API_VERSIONS, 0, "request", {}), 0, "bench"),
    "Fetch, 64 KiB back": codec.encode_request(codec.build(Api.FETCH, 12, "request", FETCH), 0, "bench"),
}
RESPONSE_BYTES = {int(Api.API_VERSIONS): 400, int(Api.FETCH): 1 << 16}


def serve(address: str) -> None:
    """Node 2: answer every request, each connection in a thread of its own."""
    listening = socket.create_server((address, CONTROLLER_PORT))
    print("listening", flush=True)
    while True:
        accepted, _ = listening.accept()
        threading.Thread(target=answer, args=(accepted,), daemon=True).start()


def answer(accepted: socket.socket) -> None:
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while head := accepted.recv(4):
        request = accepted.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
        api_key, _, correlation_id = struct.unpack_from(">hhi", request)
        size = RESPONSE_BYTES[api_key]
        accepted.sendall(struct.pack(">ii", size - 4, correlation_id) + bytes(size - 8))


def ask(source: str, target: str, round_trips: int) -> None:
    """Node 1: print the round trips' times in microseconds, by request and way."""
    connections = {way: connect(source, target, way == "direct") for way in ("direct", "proxy")}
    times: dict[str, dict[str, list[float]]] = {name: {way: [] for way in connections} for name in REQUESTS}
    for name, request in REQUESTS.items():
        for number in range(-1, round_trips // BATCH):
            for way, connection in connections.items():
                batch = [round_trip_us(connection, request) for _ in range(BATCH)]
                times[name][way] += batch if number >= 0 else []  # the first batch warms up
    print(json.dumps(times))


def connect(source: str, target: str, marked: bool) -> socket.socket:
    connection = outgoing(source, marked)
    connection.setblocking(True)
    connection.connect((target, CONTROLLER_PORT))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def round_trip_us(connection: socket.socket, request: bytes) -> float:
    began = time.perf_counter_ns()
    connection.sendall(request)
    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    connection.recv(length, socket.MSG_WAITALL)
    return (time.perf_counter_ns() - began) / 1_000


async def measure(directory: Path, round_trips: int) -> list[tuple[str, ...]]:
    """Inside the sandbox: a row of figures for each setting and request."""
    rows: list[tuple[str, ...]] = []
    async with NamespaceHosts.up(directory, nodes=2) as hosts:
        addresses = [view.address for view in hosts.views.values()]
        with serving(hosts, addresses[1]):
            for name, rules, records in SETTINGS:
                recording = Recording(directory / "rows.jsonl", time.monotonic_ns()) if records else None
                async with NamespaceRpcs.up(hosts, recording=recording) as rpcs:
                    await rpcs.replace(rules)
                    argv = [sys.executable, __file__, "ask", *addresses, str(round_trips)]
                    rows += figures(name, json.loads(await run(hosts.enter(1, argv), timeout_seconds=300)))
    return rows


@contextmanager
def serving(hosts: NamespaceHosts, address: str) -> Iterator[None]:
    argv = hosts.enter(2, [sys.executable, __file__, "serve", address])
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"listening\n"
        try:
            yield
        finally:
            server.kill()


def figures(setting: str, times: dict[str, dict[str, list[float]]]) -> list[tuple[str, ...]]:
    rows = []
    for name, ways in times.items():
        direct, proxy = ([statistics.median(each), percentile_99(each)] for each in (ways["direct"], ways["proxy"]))
        pairs = zip(direct, proxy, strict=True)
        shown = [(f"{a:.0f}", f"{b:.0f}", f"{b - a:+.0f}", f"{b / a:.2f}") for a, b in pairs]
        rows.append((setting, name, *shown[0], *shown[1]))
    return rows


def percentile_99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def main(arguments: list[str]) -> None:
    match arguments:
        case ["serve", address]:
            serve(address)
        case ["ask", source, target, round_trips]:
            ask(source, target, int(round_trips))
        case ["inside", directory, round_trips]:
            print(json.dumps(asyncio.run(measure(Path(directory), int(round_trips)))))
        case _:
            round_trips = arguments[0] if arguments else str(ROUND_TRIPS)
            with tempfile.TemporaryDirectory() as directory:
                argv = [sys.executable, __file__, "inside", directory, round_trips]
                shown = subprocess.run(enclose(argv, Privilege.detect()), stdout=subprocess.PIPE, check=True).stdout
            headers = ["proxy", "round trip", "direct, µs", "proxy", "adds", "ratio"]
            headers += ["p99: direct, µs", "proxy", "adds", "ratio"]
            print(tabulate(json.loads(shown), headers=headers, disable_numparse=True))


if __name__ == "__main__":
    main(sys.argv[1:])
