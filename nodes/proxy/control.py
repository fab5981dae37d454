"""The proxy's control channel: JSON lines, one request and one response each, over a Unix socket of the controller.

Contains the requests and responses; nodes.proxy.server carries the requests out.

The first line configures the proxy: its listeners, the seed of its rules, the file of the RPC record or null (rows),
and the monotonic time from which the record's times count (origin_ns). Any number of requests follow. Requests and
their responses:

    {"listeners": [{"node", "address", "namespace"}, …],
     "seed", "rows", "origin_ns"}                          {"ports": {node: port}}
      or in front of a node: {"node", "address", "bound", "ports"}
    {"claim": [address, port], "node"}                     {}
    {"replace": [rule, …]}                                 {"counts": {name: [matched, acted, holding]}}, until then
    {"counts": true}                                       {"counts": {name: [matched, acted, holding]}}
    {"accepted": [[address, port], …], "within_seconds"}   {"accepted": [[address, port], …]}

The response to an invalid request is {"error": message}. When the socket closes, the proxy ends.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.model import BadInput
from harness.model.faults.rpc import RpcRule, RuleCount
from nodes.proxy.channel import ChannelContext
from nodes.proxy.listeners import AddressListener, Dialers, Listener, RedirectListener
from nodes.proxy.message_queue import Timers
from nodes.proxy.record import RowFile
from nodes.proxy.rules import RuleBook
from nodes.proxy.server import Proxy

LINE_BYTES_MAX = 1 << 20


async def serve(control: socket.socket) -> None:
    """Run the proxy until the control socket closes."""
    reader, writer = await asyncio.open_unix_connection(sock=control, limit=LINE_BYTES_MAX)
    first = await reader.readline()
    if not first:
        return
    configuration = json.loads(first)
    rows = _row_file(configuration)
    dialers = Dialers()
    proxy = Proxy(_listeners(configuration["listeners"], dialers), _channel_context(configuration, rows))
    writer.write(_line(await _listen(proxy)))
    while request := await reader.readline():
        writer.write(_line(await _respond(proxy, dialers, json.loads(request))))
    if rows is not None:
        rows.flush()


async def _listen(proxy: Proxy) -> Mapping[str, Any]:
    try:
        return {"ports": await proxy.listen()}
    except OSError as error:
        return {"error": f"listening for nodes: {error.strerror}"}


async def _respond(proxy: Proxy, dialers: Dialers, request: Mapping[str, Any]) -> Mapping[str, Any]:
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
        return _counts_as_json(proxy.replace([RpcRule.from_json(rule) for rule in request["replace"]]))
    if "counts" in request:
        return _counts_as_json(proxy.counts())
    if "accepted" in request:
        peers = [(address, port) for address, port in request["accepted"]]
        return {"accepted": await proxy.accepted_among(peers, request["within_seconds"])}
    raise BadInput(f"requesting {dict(request)!r} from the proxy: expected claim, replace, counts or accepted")


def _counts_as_json(counts: Mapping[str, RuleCount]) -> Mapping[str, Any]:
    return {"counts": {name: [count.matched, count.acted, count.holding] for name, count in counts.items()}}


def counts_from_json(response: Mapping[str, Any]) -> dict[str, RuleCount]:
    """The counters in a response, by rule name."""
    return {name: RuleCount(*numbers) for name, numbers in response["counts"].items()}


def _listeners(specs: Sequence[Mapping[str, Any]], dialers: Dialers) -> dict[int, Listener]:
    nodes = {spec["address"]: spec["node"] for spec in specs}
    bound = {spec["node"]: spec["bound"] for spec in specs if "bound" in spec}
    return {spec["node"]: _listener(spec, nodes, bound, dialers) for spec in specs}


def _listener(
    spec: Mapping[str, Any], nodes: Mapping[str, int], bound: Mapping[int, str], dialers: Dialers
) -> Listener:
    if "namespace" in spec:
        return RedirectListener(spec["node"], spec["address"], Path(spec["namespace"]), nodes)
    return AddressListener(spec["node"], spec["address"], spec["ports"], bound, dialers)


def _row_file(configuration: Mapping[str, Any]) -> RowFile | None:
    loop = asyncio.get_running_loop()
    return RowFile(Path(configuration["rows"]), loop.call_later) if configuration["rows"] else None


def _channel_context(configuration: Mapping[str, Any], rows: RowFile | None) -> ChannelContext:
    loop, origin_ns = asyncio.get_running_loop(), configuration["origin_ns"]
    return ChannelContext(
        RuleBook(configuration["seed"]),
        Timers(loop.time, loop.call_at),
        lambda: time.monotonic_ns() - origin_ns,
        rows.append if rows is not None else None,
    )


def _line(response: Mapping[str, Any]) -> bytes:
    return json.dumps(response).encode() + b"\n"
