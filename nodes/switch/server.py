"""The switch's loop: receives frames, shapes them and sends them when due; reads its links from standard input.

A line on standard input is a JSON list of links that replaces all current links:

    [{"from": "v1", "to": "v2", "address": "10.77.0.2", "seed": "7 1>2", "shape": {"delay_ms": 50}}, …]

The response is one line, `{"links": 1}` once the links are active, or `{"error": …}`. An unchanged link keeps its
state. When the last link is removed, all waiting frames are sent immediately. The process ends with its standard input.
"""

from __future__ import annotations

import gc
import heapq
import json
import math
import os
import random
import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, BinaryIO

from harness.model import EnvironmentFailure
from harness.model.faults.packets import PacketShape
from nodes.switch.ports import FRAME_BYTES_MAX, TARGET_ADDRESS, read_only_to, reading_port, sending_port
from nodes.switch.shaping import ShapedLink

URGENT_NICE = -10
FRAMES_PER_TURN = 64
"""The number of frames received from one port before other ports are read and due frames are sent."""


@dataclass(frozen=True, slots=True)
class Route:
    """A link, its specification, and the port from which its frames are sent."""

    spec: dict[str, Any]
    link: ShapedLink
    exit_port: socket.socket


@dataclass(slots=True)
class Switch:
    """All links, the sockets of their ports, and a heap of waiting frames by due time (seconds of the clock).

    routes are keyed by the entry port's socket and the packed target address.
    """

    clock: Callable[[], float]
    routes: dict[tuple[socket.socket, bytes], Route] = field(default_factory=dict)
    entry_ports: dict[str, socket.socket] = field(default_factory=dict)
    exit_ports: dict[str, socket.socket] = field(default_factory=dict)
    waiting: list[tuple[float, int, socket.socket, bytes]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def replace(self, links: list[dict[str, Any]]) -> None:
        """Replace all links. Raises EnvironmentFailure, without a change, if a port cannot be opened."""
        for spec in links:
            self._open_ports(spec)
        current = {_key(route.spec): route.link for route in self.routes.values()}
        targets: dict[str, list[str]] = {name: [] for name in self.entry_ports}
        routes = {}
        for spec in links:
            targets[spec["from"]].append(spec["address"])
            entry = (self.entry_ports[spec["from"]], socket.inet_aton(spec["address"]))
            routes[entry] = Route(spec, current.get(_key(spec)) or _shaped_link(spec), self.exit_ports[spec["to"]])
        self.routes = routes
        for name, addresses in targets.items():
            read_only_to(self.entry_ports[name], addresses)
        if not links:
            self.send_due(math.inf)

    def _open_ports(self, spec: dict[str, Any]) -> None:
        if spec["from"] not in self.entry_ports:
            self.entry_ports[spec["from"]] = reading_port(spec["from"])
        if spec["to"] not in self.exit_ports:
            self.exit_ports[spec["to"]] = sending_port(spec["to"])

    def receive(self, entry_port: socket.socket) -> None:
        """Receive up to FRAMES_PER_TURN frames from a port and shape each."""
        for _ in range(FRAMES_PER_TURN):
            try:
                frame = entry_port.recv(FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            route = self.routes.get((entry_port, frame[TARGET_ADDRESS]))
            if route is None:
                continue
            now = self.clock()
            for due, shaped in route.link.shape_frame(frame, now):
                if due <= now:
                    _send(route.exit_port, shaped)
                else:
                    heapq.heappush(self.waiting, (due, next(self._numbers), route.exit_port, shaped))

    def send_due(self, now: float) -> None:
        """Send the frames that are due by now."""
        while self.waiting and self.waiting[0][0] <= now:
            _, _, exit_port, frame = heapq.heappop(self.waiting)
            _send(exit_port, frame)

    def seconds_until_due(self) -> float | None:
        """Seconds until the next frame is due; None if no frame waits."""
        return max(0.0, self.waiting[0][0] - self.clock()) if self.waiting else None


def serve(requests: BinaryIO, responses: BinaryIO) -> None:
    """Run the switch until the requests end."""
    switch, rest = Switch(time.monotonic), b""
    # Loaded modules stay in memory. Excluding them from garbage collection keeps its pauses short.
    gc.freeze()
    while True:
        inputs: list[BinaryIO | socket.socket] = [requests, *switch.entry_ports.values()]
        # select instead of epoll: its timeout has microsecond resolution, which limits the precision of delays.
        ready, _, _ = select.select(inputs, [], [], switch.seconds_until_due())
        for entry_port in switch.entry_ports.values():
            if entry_port in ready:
                switch.receive(entry_port)
        switch.send_due(switch.clock())
        if requests in ready:
            data = os.read(requests.fileno(), 1 << 20)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                responses.write(json.dumps(_respond(switch, json.loads(line))).encode() + b"\n")
                responses.flush()


def _respond(switch: Switch, links: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        switch.replace(links)
    except EnvironmentFailure as error:
        return {"error": str(error)}
    return {"links": len(links)}


def _shaped_link(spec: dict[str, Any]) -> ShapedLink:
    return ShapedLink(PacketShape(**spec["shape"]), random.Random(spec["seed"]))


def _key(spec: dict[str, Any]) -> str:
    return json.dumps(spec, sort_keys=True)


def _send(exit_port: socket.socket, frame: bytes) -> None:
    """Send a frame; it is lost if the port's queue is full or the port is gone, as on any link."""
    with suppress(OSError):
        exit_port.send(frame)


if __name__ == "__main__":
    with suppress(PermissionError):  # only root may raise the priority; it keeps packets from waiting for servers
        os.setpriority(os.PRIO_PROCESS, 0, URGENT_NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer)
