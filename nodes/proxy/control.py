"""The proxy's control channel: one JSON line asks, one JSON line answers, over a Unix socket that the starter holds.

What may live here: requests to the proxy as values, and their answers. What may not: how the proxy carries them out.

The first line tells where the nodes are; rows is the record's file or null, origin_ns the monotonic time that the rows'
times count from. Then requests in any number. Each with its answer:

    {"listeners": [{"node", "address", "namespace"}, …],
     "seed", "rows", "origin_ns"}                          {"ports": {node: port}}
      or for doors {"node", "address", "bound", "ports"}
    {"claim": [address, port], "node"}                     {}
    {"replace": [rule, …]}                                 {}
    {"counts": true}                                       {"counts": {name: [matched, acted, holding]}}
    {"accepted": [[address, port], …], "within_seconds"}   {"accepted": [[address, port], …]}

A request that cannot be carried out is answered {"error": words}. When the socket closes, the proxy ends.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.model import BadInput
from harness.model.faults.rpc import RpcRule, RuleCount
from nodes.proxy.channel import Surroundings
from nodes.proxy.listeners import AddressListener, Dialers, Listener, RedirectListener
from nodes.proxy.message_queue import Timers
from nodes.proxy.record import RowFile
from nodes.proxy.rules import RuleBook
from nodes.proxy.server import Proxy

LINE_BYTES_MAX = 1 << 20


async def serve(control: socket.socket) -> None:
    """Be the proxy until the control socket closes."""
    reader, writer = await asyncio.open_unix_connection(sock=control, limit=LINE_BYTES_MAX)
    first = await reader.readline()
    if not first:
        return
    beginning = json.loads(first)
    rows = _rows(beginning)
    dialers = Dialers()
    proxy = Proxy(_places(beginning, dialers), _surroundings(beginning, rows))
    writer.write(_line(await _begin(proxy)))
    while request := await reader.readline():
        writer.write(_line(await _answer(proxy, dialers, json.loads(request))))
    if rows is not None:
        rows.flush()


async def _begin(proxy: Proxy) -> Mapping[str, Any]:
    try:
        return {"ports": await proxy.listen()}
    except OSError as error:
        return {"error": f"listening for nodes: {error.strerror}"}


async def _answer(proxy: Proxy, dialers: Dialers, request: Mapping[str, Any]) -> Mapping[str, Any]:
    if "claim" in request:
        address, port = request["claim"]
        dialers.claims[(address, port)] = request["node"]
        return {}
    try:
        return await _carry_out(proxy, request)
    except BadInput as error:
        return {"error": str(error)}


async def _carry_out(proxy: Proxy, request: Mapping[str, Any]) -> Mapping[str, Any]:
    if "replace" in request:
        proxy.replace([RpcRule.from_json(rule) for rule in request["replace"]])
        return {}
    if "counts" in request:
        return {"counts": {name: _told(count) for name, count in proxy.counts().items()}}
    if "accepted" in request:
        peers = [(address, port) for address, port in request["accepted"]]
        return {"accepted": await proxy.accepted_among(peers, request["within_seconds"])}
    raise BadInput(f"asking the proxy {dict(request)!r}: expected replace, counts or accepted")


def _told(count: RuleCount) -> list[int]:
    return [count.matched, count.acted, count.holding]


def _places(beginning: Mapping[str, Any], dialers: Dialers) -> dict[int, Listener]:
    told = beginning["listeners"]
    nodes = {each["address"]: each["node"] for each in told}
    bound = {each["node"]: each["bound"] for each in told if "bound" in each}
    return {each["node"]: _place(each, nodes, bound, dialers) for each in told}


def _place(told: Mapping[str, Any], nodes: Mapping[str, int], bound: Mapping[int, str], dialers: Dialers) -> Listener:
    if "namespace" in told:
        return RedirectListener(told["node"], told["address"], Path(told["namespace"]), nodes)
    return AddressListener(told["node"], told["address"], told["ports"], bound, dialers)


def _rows(beginning: Mapping[str, Any]) -> RowFile | None:
    loop = asyncio.get_running_loop()
    return RowFile(Path(beginning["rows"]), loop.call_later) if beginning["rows"] else None


def _surroundings(beginning: Mapping[str, Any], rows: RowFile | None) -> Surroundings:
    loop, origin_ns = asyncio.get_running_loop(), beginning["origin_ns"]
    return Surroundings(
        RuleBook(beginning["seed"]),
        Timers(loop.time, loop.call_at),
        lambda: time.monotonic_ns() - origin_ns,
        rows.tell if rows is not None else None,
    )


def _line(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"
