"""Redirects a node's connections to the proxy: one nft table in the node's network namespace.

Contains the nft rules as JSON, and loading them. Does not decide what is redirected.

New connections to the peers' ports are redirected to the proxy, except the proxy's own, which carry a mark. An existing
connection that bypasses the proxy is reset at the next packet that the node sends on it, so its client reconnects. The
redirect therefore also works for a node that is already running.
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
    """Redirect the node's connections to these ports of its peers to the proxy's port. Raises EnvironmentFailure."""
    await _load(enter, interception(peers, ports, proxy_port))


async def stop_interception(enter: Enter) -> None:
    """Remove the redirect; does nothing if there is none. Raises EnvironmentFailure."""
    await _load(enter, _delete_table())


async def _load(enter: Enter, commands: list[dict[str, Any]]) -> None:
    await run(enter(["nft", "-j", "-f", "-"]), json.dumps({"nftables": commands}))


def interception(peers: Sequence[str], ports: Sequence[int], proxy_port: int) -> list[dict[str, Any]]:
    """The nft commands, as JSON, that replace the table."""
    table = {"family": "ip", "table": TABLE}
    to_peers = [
        {"match": {"op": "!=", "left": {"meta": {"key": "mark"}}, "right": MARK}},
        {"match": {"op": "==", "left": _field("ip", "daddr"), "right": {"set": list(peers)}}},
        {"match": {"op": "==", "left": _field("tcp", "dport"), "right": {"set": list(ports)}}},
    ]
    redirect, reset = {"redirect": {"port": proxy_port}}, {"reject": {"type": "tcp reset"}}
    return [
        *_delete_table(),
        {"add": {"table": {"family": "ip", "name": TABLE}}},
        {"add": {"chain": {**table, "name": "new", **_hook("nat", -100)}}},
        {"add": {"chain": {**table, "name": "bypassing", **_hook("filter", 0)}}},
        {"add": {"rule": {**table, "chain": "new", "expr": [*to_peers, redirect]}}},
        # This chain runs after the redirect: packets that still go to a peer's address belong to older connections.
        {"add": {"rule": {**table, "chain": "bypassing", "expr": [*to_peers, reset]}}},
    ]


def _delete_table() -> list[dict[str, Any]]:
    table = {"table": {"family": "ip", "name": TABLE}}
    return [{"add": table}, {"delete": table}]


def _hook(kind: str, priority: int) -> dict[str, Any]:
    return {"type": kind, "hook": "output", "prio": priority, "policy": "accept"}


def _field(protocol: str, name: str) -> dict[str, Any]:
    return {"payload": {"protocol": protocol, "field": name}}
