"""Test cases for the proxy, run inside a sandbox: each prints its result as one JSON line.

python rpc_cases.py CASE DIRECTORY      (started by test_rpcs_between_nodes.py)
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

from harness.model import Observation, PeerFailure
from harness.model.conditions import ALL_FOLLOW_LEADER
from harness.model.faults.rpc import CLIENTS, DROP, HOLD, Api, RpcAction, RpcMatch, RpcRule, answer, delay, intercept
from nemesis.context import NemesisContext
from nemesis.faults import rpc
from nodes.hosts.commands import run
from nodes.hosts.links import NamespaceLinks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.processes import ChildProcesses
from nodes.observe.watch import QuorumWatch
from nodes.proxy.namespaces import Namespace, outgoing
from nodes.proxy.record import read_rows
from nodes.proxy.rpcs import NamespaceRpcs, Recording
from nodes.reference.system import ReferenceSystem
from nodes.wire import codec
from nodes.wire.connection import WireConnection

CLUSTER_ID = "c3BsaXRicmFpbnByb3h5MQ"
DEADLINE_SECONDS = 30.0
BROKER_NOT_AVAILABLE = 8
EVERY_LINK = list(permutations((1, 2, 3), 2))


@dataclass(slots=True)
class Quorum:
    """Three observed reference nodes whose RPCs pass the proxy."""

    hosts: NamespaceHosts
    processes: ChildProcesses
    watch: QuorumWatch
    rpcs: NamespaceRpcs
    observations: list[Observation]
    context: NemesisContext = field(init=False)

    def __post_init__(self) -> None:
        nodes = tuple(self.hosts.views)
        links = NamespaceLinks(self.hosts)
        self.context = NemesisContext(nodes, links, self.processes, self.leader, lambda _below: 0, rpcs=self.rpcs)

    def leader(self) -> int | None:
        return self.watch.view().leader()

    def epoch(self) -> int:
        """The highest epoch observed on any node."""
        return max(observation.epoch or 0 for observation in self.observations)

    def states_of(self, node: int, since: int = 0) -> list[str]:
        """The states that a node entered, from the observation with index `since` on."""
        return [
            observation.state or ""
            for observation in self.observations[since:]
            if observation.kind == "transition" and observation.node == node
        ]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, f"waiting until {what}; last: {self.observations[-5:]}"
            await asyncio.sleep(0.01)

    async def agreed_leader(self) -> int:
        """Wait until all nodes follow one leader; returns it."""
        assert await self.watch.until(ALL_FOLLOW_LEADER, DEADLINE_SECONDS), self.observations[-5:]
        leader = self.leader()
        assert leader is not None
        return leader

    async def commits(self) -> bool:
        """Wait until the leader's high watermark has advanced by four."""
        start = self.high_watermark()
        await self.until(lambda: self.high_watermark() >= start + 4, "records are committed")
        return True

    def high_watermark(self) -> int:
        leader = self.leader()
        claim = self.watch.view().claims.get(leader) if leader is not None else None
        return (claim.high_watermark or 0) if claim else 0

    async def acted(self, rule: str, times: int = 1) -> None:
        """Wait until a rule has acted on this many messages."""
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        while (await self.rpcs.counts())[rule].acted < times:
            assert asyncio.get_running_loop().time() < deadline, f"waiting until {rule} has acted {times} times"
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running_quorum(directory: Path, recording: Recording | None = None, **switches: str) -> AsyncIterator[Quorum]:
    """A running quorum that has a leader."""
    system = ReferenceSystem({f"reference.{name}": value for name, value in switches.items()}, CLUSTER_ID, seed=1)
    observations: list[Observation] = []
    async with NamespaceHosts.up(directory, 3) as hosts, NamespaceRpcs.up(hosts, recording=recording) as rpcs:
        processes = ChildProcesses(hosts, system, lambda *_: None)
        for view in hosts.views.values():
            await system.prepare(hosts.host(view.node), hosts.views)
            await processes.start(view.node)
        connections = {node: WireConnection(view.address, 9093, "observer") for node, view in hosts.views.items()}
        files = {node: system.files(view) for node, view in hosts.views.items()}
        origin_ns = time.time_ns() - time.monotonic_ns()
        watch = QuorumWatch(time.monotonic_ns, origin_ns, observations.append, files, connections)
        watch.start()
        try:
            running = Quorum(hosts, processes, watch, rpcs, observations)
            await running.agreed_leader()
            yield running
        finally:
            await processes.kill_all()
            await watch.stop()


def held_fetches() -> Mapping[str, Any]:
    """The nemesis op's value: hold Fetch responses from the leader to one follower."""
    match = RpcMatch((Api.FETCH,), "response", ("leader",), ("follower",))
    return intercept(RpcRule("held-fetches", match, HOLD)).value


async def inject(context: NemesisContext, value: Any) -> dict[str, Any]:
    """Inject the rules of a nemesis op's value."""
    return await rpc.inject(context, rpc.NAME, rpc.resolve(context, rpc.NAME, value))


async def _hold_fetches(quorum: Quorum, until: Callable[[int, int], bool]) -> dict[str, Any]:
    """Hold a follower's Fetch responses until until(follower, index of the first observation) is true; then heal."""
    before, start, context = quorum.epoch(), len(quorum.observations), quorum.context
    leader = await quorum.agreed_leader()
    done = await inject(context, held_fetches())
    (follower,) = done["rules"][0]["match"]["targets"]
    await quorum.until(lambda: until(follower, start), "the follower reacts to the missing responses")
    holding = (await quorum.rpcs.counts())["held-fetches"].holding
    healed = await rpc.heal(context)
    after = await quorum.agreed_leader()
    epochs_raised = quorum.epoch() - before
    acted = healed["counts"]["held-fetches"]["acted"]
    states = quorum.states_of(follower, start)
    return {
        "epochs_raised": epochs_raised,
        "deposed": after != leader,
        "states": states,
        "acted": acted,
        "holding": holding,
    }


async def fetches_held_with_pre_vote(directory: Path) -> dict[str, Any]:
    """Hold until the follower has become Prospective and Follower again."""
    async with running_quorum(directory) as quorum:

        def is_follower_again(follower: int, since: int) -> bool:
            return quorum.states_of(follower, since)[:2] == ["Prospective", "Follower"]

        return await _hold_fetches(quorum, is_follower_again)


async def fetches_held_without_pre_vote(directory: Path) -> dict[str, Any]:
    """Hold until the follower has raised the epoch."""
    async with running_quorum(directory, pre_vote="false") as quorum:
        before = quorum.epoch()
        return await _hold_fetches(quorum, lambda _follower, _since: quorum.epoch() > before)


async def _no_pre_vote(directory: Path, action: RpcAction) -> dict[str, Any]:
    """Kill the leader while no pre-vote request is delivered; then remove the rule."""
    async with running_quorum(directory) as quorum:
        rule = RpcRule("pre-votes", RpcMatch((Api.VOTE,), pre_vote=True), action)
        leader, before, start = await quorum.agreed_leader(), quorum.epoch(), len(quorum.observations)
        await inject(quorum.context, intercept(rule).value)
        await quorum.processes.kill(leader)
        await quorum.until(lambda: both_are_prospective(quorum, leader, start), "both other nodes are Prospective")
        await quorum.acted("pre-votes", times=4)
        states = {state for node in (1, 2, 3) for state in quorum.states_of(node, start)}
        epochs_raised = quorum.epoch() - before
        healed = await rpc.heal(quorum.context)
        await quorum.until(lambda: quorum.leader() not in (None, leader), "another leads")
        acted = healed["counts"]["pre-votes"]["acted"] >= 4
        return {"states": sorted(states), "epochs_raised": epochs_raised, "acted": acted}


def both_are_prospective(quorum: Quorum, dead: int, since: int) -> bool:
    return all("Prospective" in quorum.states_of(node, since) for node in (1, 2, 3) if node != dead)


async def pre_votes_dropped(directory: Path) -> dict[str, Any]:
    return await _no_pre_vote(directory, DROP)


async def pre_votes_answered_with_an_error(directory: Path) -> dict[str, Any]:
    return await _no_pre_vote(directory, answer(BROKER_NOT_AVAILABLE))


async def nothing_matches(directory: Path) -> dict[str, Any]:
    """A rule that matches no message."""
    async with running_quorum(directory) as quorum:
        leader, before = await quorum.agreed_leader(), quorum.epoch()
        await inject(quorum.context, intercept(RpcRule("end-txn", RpcMatch((Api.END_TXN,)), DROP)).value)
        commits = await quorum.commits()
        counts = await quorum.rpcs.counts()
        try:
            await rpc.heal(quorum.context)
            outcome = "healed"
        except PeerFailure as failure:
            outcome = str(failure)
        unchanged = (quorum.leader(), quorum.epoch()) == (leader, before)
        matched = counts["end-txn"].matched
        return {"commits": commits, "unchanged": unchanged, "matched": matched, "outcome": outcome}


async def proxy_killed(directory: Path) -> dict[str, Any]:
    """Kill the proxy, heal the rules, and start a new proxy."""
    async with running_quorum(directory) as quorum:
        routes: dict[str, list[str]] = {}

        async def test_ways(name: str) -> None:
            routes[name] = sorted(set((await quorum.rpcs.routes(EVERY_LINK)).values()))

        await quorum.rpcs.replace([RpcRule("slow", RpcMatch((Api.FETCH,)), delay(1))])
        await test_ways("with a proxy")
        assert quorum.rpcs.pid is not None
        os.kill(quorum.rpcs.pid, signal.SIGKILL)
        await quorum.until(lambda: quorum.rpcs.pid is None, "the proxy is gone")
        await test_ways("killed")
        await rpc.heal(quorum.context)
        await test_ways("healed")
        await quorum.agreed_leader()
        commits = await quorum.commits()
        await quorum.rpcs.replace([RpcRule("slow", RpcMatch((Api.FETCH,)), delay(1))])
        await test_ways("with a new proxy")
        await quorum.acted("slow", times=5)
        await rpc.heal(quorum.context)
        await quorum.agreed_leader()
        return {"routes": routes, "commits": commits}


async def everything_recorded(directory: Path) -> dict[str, Any]:
    """Record an election, commits, the death of the leader and another election."""
    rows_path = directory / "rows.jsonl"
    directory.mkdir(parents=True, exist_ok=True)
    async with running_quorum(directory, Recording(rows_path, time.monotonic_ns())) as quorum:
        await quorum.commits()
        leader = await quorum.agreed_leader()
        await quorum.processes.kill(leader)
        await quorum.until(lambda: quorum.leader() not in (None, leader), "another leads")
        final, epoch = quorum.leader(), quorum.epoch()
    rows = list(read_rows(rows_path))
    requests = {(row.source, row.target, row.correlation_id, row.api_key) for row in rows if row.direction == "request"}
    responses = {
        (row.target, row.source, row.correlation_id, row.api_key) for row in rows if row.direction == "response"
    }
    votes = [row for row in rows if row.api_key == Api.VOTE]
    granted = [row for row in votes if row.granted]
    return {
        "responses match requests": responses <= requests,
        "times grow": [row.time_ns for row in rows] == sorted(row.time_ns for row in rows) and rows[0].time_ns > 0,
        "pre-vote flags": sorted({row.pre_vote for row in votes if row.direction == "request"}),
        "last vote granted": (granted[-1].target, granted[-1].epoch, granted[-1].pre_vote) == (final, epoch, False),
        "fetches of the last epoch": any(
            (row.api_key, row.direction, row.epoch, row.target) == (Api.FETCH, "request", epoch, final) for row in rows
        ),
        "actions": sorted({row.action for row in rows}),
    }


END_TXN = codec.encode_request(
    codec.build(
        Api.END_TXN, 1, "request", {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "committed": True}
    ),
    7,
    "client",
)


async def client_leaves_while_held(directory: Path) -> dict[str, Any]:
    """A client closes while its EndTxn is held, then the rule is removed: the requests that the server receives."""
    async with NamespaceHosts.up(directory, 2) as hosts, NamespaceRpcs.up(hosts, clients=True) as rpcs:
        arrived: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        await _serve(hosts, 2, arrived)
        await rpcs.replace([RpcRule("end-txn", RpcMatch((Api.END_TXN,), sources=(CLIENTS,)), HOLD)])
        _, writer = await asyncio.open_connection(hosts.views[2].address, 9093)
        writer.write(END_TXN)
        while (await rpcs.counts())["end-txn"].holding == 0:
            await asyncio.sleep(0.01)
        writer.close()
        await writer.wait_closed()
        # A later connection is served while the request is held, so the held request had time to arrive.
        other = await _request(hosts, 1, 2, VERSIONS)
        before = [arrived.get_nowait()[1] == VERSIONS for _ in range(arrived.qsize())]
        await rpcs.replace([])
        late = await asyncio.wait_for(arrived.get(), DEADLINE_SECONDS)
        is_source_kept = await _request(hosts, 1, 2, VERSIONS) == other == hosts.views[1].address.encode()
        return {"before": before, "late": late[1] == END_TXN, "source address kept": is_source_kept}


async def closed_port(directory: Path) -> dict[str, Any]:
    """A connection through the proxy to a closed port."""
    async with NamespaceHosts.up(directory, 2) as hosts, NamespaceRpcs.up(hosts) as rpcs:
        try:
            answered = await _request(hosts, 1, 2, VERSIONS)
            ended = "closed" if answered == b"" else "answered"
        except ConnectionResetError:
            ended = "reset"
        routes = await rpcs.routes([(1, 2), (CLIENTS, 2)])
        return {"ended": ended, "node": routes[(1, 2)], "client": routes[(CLIENTS, 2)]}


async def cut_link(directory: Path) -> dict[str, Any]:
    """A request on a cut link that is abandoned before the link heals, and a request after that."""
    async with NamespaceHosts.up(directory, 2) as hosts, NamespaceRpcs.up(hosts) as rpcs:
        arrived: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        await _serve(hosts, 2, arrived)
        links = NamespaceLinks(hosts)
        await links.cut([(1, 2)])
        try:
            async with asyncio.timeout(0.5):
                await _request(hosts, 1, 2, END_TXN)
            answered = True
        except TimeoutError:
            answered = False
        route = (await rpcs.routes([(1, 2)]))[(1, 2)]
        await _until_no_pending_connection(hosts, 1)
        await links.heal()
        await _request(hosts, 1, 2, VERSIONS)
        frames = [arrived.get_nowait()[1] for _ in range(arrived.qsize())]
        return {
            "answered": answered,
            "route": route,
            "arrived": ["versions" if f == VERSIONS else "end-txn" for f in frames],
        }


async def _until_no_pending_connection(hosts: NamespaceHosts, node: int) -> None:
    """Wait until no connection attempt in the node's namespace is pending (SYN-SENT)."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while (await run(hosts.enter(node, ["ss", "-Htn", "state", "syn-sent"]))).strip():
        assert asyncio.get_running_loop().time() < deadline, "a connection attempt is still pending"
        await asyncio.sleep(0.01)


async def large_frames(directory: Path) -> dict[str, Any]:
    """Requests of many megabytes arrive complete and in order behind a delayed one."""
    async with NamespaceHosts.up(directory, 2) as hosts, NamespaceRpcs.up(hosts) as rpcs:
        arrived: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        await _serve(hosts, 2, arrived)
        await rpcs.replace([RpcRule("slow", RpcMatch((Api.API_VERSIONS,), nth=1), delay(200))])
        sizes = [1, 20_000_000, 5_000_000]
        frames = [_padded(VERSIONS, size) for size in sizes]
        await _request(hosts, 1, 2, b"".join(frames), responses=len(frames))
        return {"complete": [arrived.get_nowait()[1] == frame for frame in frames]}


def _padded(frame: bytes, size: int) -> bytes:
    body = frame[4:] + bytes(size)
    return len(body).to_bytes(4, "big") + body


VERSIONS = codec.encode_request(codec.build(Api.API_VERSIONS, 0, "request", {}), 3, "node")


async def _serve(hosts: NamespaceHosts, node: int, arrived: asyncio.Queue[tuple[str, bytes]]) -> None:
    """Start a server on a node that answers each frame with the sender's address."""
    make = partial(socket.create_server, (hosts.views[node].address, 9093))
    listening = await Namespace(hosts.network_namespace(node)).make(make)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(4)
                frame = head + await reader.readexactly(codec.frame_length(head))
                sender = writer.get_extra_info("peername")[0]
                arrived.put_nowait((sender, frame))
                body = frame[8:12] + sender.encode()
                writer.write(len(body).to_bytes(4, "big") + body)
        except EOFError:
            writer.close()

    await asyncio.start_server(serve, sock=listening)


async def _request(hosts: NamespaceHosts, source: int, target: int, request: bytes, responses: int = 1) -> bytes:
    """Send a request from a node on a new connection; returns the body of the last response."""
    namespace = Namespace(hosts.network_namespace(source))
    client = await namespace.make(lambda: outgoing(hosts.views[source].address, marked=False))
    namespace.close()
    await asyncio.get_running_loop().sock_connect(client, (hosts.views[target].address, 9093))
    reader, writer = await asyncio.open_connection(sock=client)
    try:
        writer.write(request)
        for _ in range(responses):
            head = await reader.readexactly(8)
            body = await reader.readexactly(int.from_bytes(head[:4], "big") - 4)
        return body
    finally:
        writer.close()


CASES: list[Callable[[Path], Coroutine[Any, Any, dict[str, Any]]]] = [
    fetches_held_with_pre_vote,
    fetches_held_without_pre_vote,
    pre_votes_dropped,
    pre_votes_answered_with_an_error,
    nothing_matches,
    proxy_killed,
    everything_recorded,
    client_leaves_while_held,
    closed_port,
    cut_link,
    large_frames,
]

if __name__ == "__main__":
    by_name = {case.__name__: case for case in CASES}
    print(json.dumps(asyncio.run(by_name[sys.argv[1]](Path(sys.argv[2])))))
