"""The switch's loop: frames in, shapings, frames out when they are due; and the lines by which its starter changes
links.

A line on standard input is a JSON list of links, in place of all there were:

    [{"from": "v1", "to": "v2", "address": "10.77.0.2", "seed": "7 1>2", "shape": {"delay_ms": 50}}, …]

Each is answered by one line, `{"links": 1}` or `{"error": …}`, when it holds. A link that stays as it was goes on as it
was; with the last link, all frames that still wait arrive at once. The process ends when its standard input does.
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
FRAMES_A_TURN = 64
"""How many frames of one port are taken before another port has its turn and what is due is sent."""


@dataclass(frozen=True, slots=True)
class Route:
    """A link and the port that its frames leave by."""

    told: dict[str, Any]
    link: ShapedLink
    leave_by: socket.socket


@dataclass(slots=True)
class Switch:
    """All links, the sockets by their ports, and the frames that wait, by when they are due (seconds of the clock)."""

    clock: Callable[[], float]
    ways: dict[tuple[socket.socket, bytes], Route] = field(default_factory=dict)
    entries: dict[str, socket.socket] = field(default_factory=dict)
    exits: dict[str, socket.socket] = field(default_factory=dict)
    waiting: list[tuple[float, int, socket.socket, bytes]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def replace(self, links: list[dict[str, Any]]) -> None:
        """Have these links and no others. Raises EnvironmentFailure where a port cannot be had, and changes nothing."""
        for told in links:
            self._open_ports(told)
        before = {_name(way.told): way.link for way in self.ways.values()}
        targets: dict[str, list[str]] = {name: [] for name in self.entries}
        ways = {}
        for told in links:
            targets[told["from"]].append(told["address"])
            entrance = (self.entries[told["from"]], socket.inet_aton(told["address"]))
            ways[entrance] = Route(told, before.get(_name(told)) or _lane(told), self.exits[told["to"]])
        self.ways = ways
        for name, addresses in targets.items():
            read_only_to(self.entries[name], addresses)
        if not links:
            self.send_due(math.inf)

    def _open_ports(self, told: dict[str, Any]) -> None:
        if told["from"] not in self.entries:
            self.entries[told["from"]] = reading_port(told["from"])
        if told["to"] not in self.exits:
            self.exits[told["to"]] = sending_port(told["to"])

    def take(self, entry: socket.socket) -> None:
        """Take a turn's frames from a port and settle what becomes of each."""
        for _ in range(FRAMES_A_TURN):
            try:
                frame = entry.recv(FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            way = self.ways.get((entry, frame[TARGET_ADDRESS]))
            if way is None:
                continue
            now = self.clock()
            for due, arriving in way.link.pass_on(frame, now):
                if due <= now:
                    _send(way.leave_by, arriving)
                else:
                    heapq.heappush(self.waiting, (due, next(self._numbers), way.leave_by, arriving))

    def send_due(self, now: float) -> None:
        """Send what is due by now."""
        while self.waiting and self.waiting[0][0] <= now:
            _, _, leaving, frame = heapq.heappop(self.waiting)
            _send(leaving, frame)

    def seconds_until_due(self) -> float | None:
        """How long nothing is due; None while nothing waits."""
        return max(0.0, self.waiting[0][0] - self.clock()) if self.waiting else None


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Be the switch until the requests end."""
    switch, rest = Switch(time.monotonic), b""
    # What is loaded by now is there to stay: a collection need not look at it, and no packet waits for one that does.
    gc.freeze()
    while True:
        watched: list[BinaryIO | socket.socket] = [requests, *switch.entries.values()]
        # select, not epoll: its timeout is in microseconds, and a delay is only as exact as the wait for its end.
        ready, _, _ = select.select(watched, [], [], switch.seconds_until_due())
        for entry in switch.entries.values():
            if entry in ready:
                switch.take(entry)
        switch.send_due(switch.clock())
        if requests in ready:
            data = os.read(requests.fileno(), 1 << 20)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                answers.write(json.dumps(_answer(switch, json.loads(line))).encode() + b"\n")
                answers.flush()


def _answer(switch: Switch, links: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        switch.replace(links)
    except EnvironmentFailure as error:
        return {"error": str(error)}
    return {"links": len(links)}


def _lane(told: dict[str, Any]) -> ShapedLink:
    return ShapedLink(PacketShape(**told["shape"]), random.Random(told["seed"]))


def _name(told: dict[str, Any]) -> str:
    return json.dumps(told, sort_keys=True)


def _send(leaving: socket.socket, frame: bytes) -> None:
    """Send a frame; one that finds the port's queue full or the port gone is lost, as on any link."""
    with suppress(OSError):
        leaving.send(frame)


if __name__ == "__main__":
    with suppress(PermissionError):  # root's alone: packets need not wait for the servers that they are sent by
        os.setpriority(os.PRIO_PROCESS, 0, URGENT_NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer)
