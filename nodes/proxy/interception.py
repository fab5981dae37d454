"""What makes a node's connections pass through the proxy: one nft table in the node's own network namespace.

What may live here: nft's JSON, and loading it. What may not: who asks for it, and why.

New connections to the peers' ports are redirected to the proxy, but for the proxy's own, which carry a mark. A
connection that was there before and goes around the proxy is reset by the next packet that it sends, so that its
client opens it anew: the redirect takes hold of a node that has been running for long.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from nodes.hosts.commands import run
from nodes.proxy.namespaces import MARK

TABLE = "splitbrain_rpc"

Enter = Callable[[Sequence[str]], Sequence[str]]
"""Turns a command into one that runs in the node's network namespace."""


async def intercept(enter: Enter, peers: Sequence[str], ports: Sequence[int], proxy_port: int) -> None:
    """Lead what the node sends to these ports of its peers to the proxy's port. Raises EnvironmentFailure."""
    await _load(enter, interception(peers, ports, proxy_port))


async def let_go(enter: Enter) -> None:
    """RedirectListener no more; harmless where nothing is redirected."""
    await _load(enter, _forget())


async def _load(enter: Enter, commands: list[dict[str, Any]]) -> None:
    await run(enter(["nft", "-j", "-f", "-"]), json.dumps({"nftables": commands}))


def interception(peers: Sequence[str], ports: Sequence[int], proxy_port: int) -> list[dict[str, Any]]:
    """The table in nft's JSON, replacing any that is there."""
    table = {"family": "ip", "table": TABLE}
    to_peers = [
        {"match": {"op": "!=", "left": {"meta": {"key": "mark"}}, "right": MARK}},
        {"match": {"op": "==", "left": _field("ip", "daddr"), "right": {"set": list(peers)}}},
        {"match": {"op": "==", "left": _field("tcp", "dport"), "right": {"set": list(ports)}}},
    ]
    redirect, reset = {"redirect": {"port": proxy_port}}, {"reject": {"type": "tcp reset"}}
    return [
        *_forget(),
        {"add": {"table": {"family": "ip", "name": TABLE}}},
        {"add": {"chain": {**table, "name": "new", **_hook("nat", -100)}}},
        {"add": {"chain": {**table, "name": "around", **_hook("filter", 0)}}},
        {"add": {"rule": {**table, "chain": "new", "expr": [*to_peers, redirect]}}},
        # After the redirect: what still goes to a peer's own address has been there before.
        {"add": {"rule": {**table, "chain": "around", "expr": [*to_peers, reset]}}},
    ]


def _forget() -> list[dict[str, Any]]:
    table = {"table": {"family": "ip", "name": TABLE}}
    return [{"add": table}, {"delete": table}]


def _hook(kind: str, priority: int) -> dict[str, Any]:
    return {"type": kind, "hook": "output", "prio": priority, "policy": "accept"}


def _field(protocol: str, name: str) -> dict[str, Any]:
    return {"payload": {"protocol": protocol, "field": name}}
