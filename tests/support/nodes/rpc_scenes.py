"""What the tests of the proxy play inside a sandbox; each scene prints what it saw as one JSON line.

python rpc_scenes.py SCENE DIRECTORY      (started by test_rpcs_between_nodes.py)
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
    """Three reference nodes that talk through the proxy, watched."""

    hosts: NamespaceHosts
    processes: ChildProcesses
    watch: QuorumWatch
    rpcs: NamespaceRpcs
    seen: list[Observation]

    @property
    def context(self) -> NemesisContext:
        nodes = tuple(self.hosts.views)
        links = NamespaceLinks(self.hosts)
        return NemesisContext(nodes, links, self.processes, self.leader, lambda _below: 0, rpcs=self.rpcs)

    def leader(self) -> int | None:
        return self.watch.view().leader()

    def epoch(self) -> int:
        """The newest epoch that any node was seen in."""
        return max(each.epoch or 0 for each in self.seen)

    def states_of(self, node: int, since: int = 0) -> list[str]:
        transitions = [each for each in self.seen[since:] if each.kind == "transition" and each.node == node]
        return [each.state or "" for each in transitions]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, f"waiting until {what}; last: {self.seen[-5:]}"
            await asyncio.sleep(0.01)

    async def settled(self) -> int:
        """Wait until all follow one leader, and tell which."""
        assert await self.watch.until(ALL_FOLLOW_LEADER, DEADLINE_SECONDS), self.seen[-5:]
        leader = self.leader()
        assert leader is not None
        return leader

    async def commits(self) -> bool:
        """Wait until the leader's high watermark has moved by four."""
        start = self.high_watermark()
        await self.until(lambda: self.high_watermark() >= start + 4, "records are committed")
        return True

    def high_watermark(self) -> int:
        leader = self.leader()
        claim = self.watch.view().claims.get(leader) if leader is not None else None
        return (claim.high_watermark or 0) if claim else 0

    async def acted(self, rule: str, times: int = 1) -> None:
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        while (await self.rpcs.counts())[rule].acted < times:
            assert asyncio.get_running_loop().time() < deadline, f"waiting until {rule} has acted {times} times"
            await asyncio.sleep(0.01)


@asynccontextmanager
async def quorum(directory: Path, recording: Recording | None = None, **switches: str) -> AsyncIterator[Quorum]:
    """A quorum that has a leader, from here to the end of the block."""
    system = ReferenceSystem({f"reference.{name}": value for name, value in switches.items()}, CLUSTER_ID, seed=1)
    seen: list[Observation] = []
    watch = QuorumWatch(time.monotonic_ns, time.time_ns() - time.monotonic_ns(), seen.append)
    async with NamespaceHosts.up(directory, 3) as hosts, NamespaceRpcs.up(hosts, recording=recording) as rpcs:
        processes = ChildProcesses(hosts, system, lambda *_: None)
        for view in hosts.views.values():
            await system.prepare(hosts.host(view.node), hosts.views)
            await processes.start(view.node)
        connections = {node: WireConnection(view.address, 9093, "judge") for node, view in hosts.views.items()}
        watch.start({node: system.files(view) for node, view in hosts.views.items()}, connections)
        try:
            played = Quorum(hosts, processes, watch, rpcs, seen)
            await played.settled()
            yield played
        finally:
            await processes.kill_all()
            await watch.stop()
            for connection in connections.values():
                await connection.close()


def held_fetches() -> Mapping[str, Any]:
    """The deed: Fetch responses from the leader to one follower are held."""
    match = RpcMatch((Api.FETCH,), "response", ("leader",), ("follower",))
    return intercept(RpcRule("held-fetches", match, HOLD)).value


async def inject(context: NemesisContext, deed: Any) -> dict[str, Any]:
    """Put a deed's rules in listener."""
    return await rpc.inject(context, rpc.NAME, rpc.resolve(context, rpc.NAME, deed))


async def _hold_fetches(played: Quorum, until: Callable[[int, int], bool]) -> dict[str, Any]:
    """Hold a follower's Fetch responses until so, given the follower and where its observations begin; then heal."""
    before, began, context = played.epoch(), len(played.seen), played.context
    leader = await played.settled()
    done = await inject(context, held_fetches())
    (follower,) = done["rules"][0]["match"]["targets"]
    await played.until(lambda: until(follower, began), "the follower misses its leader")
    holding = (await played.rpcs.counts())["held-fetches"].holding
    healed = await rpc.heal(context)
    after = await played.settled()
    burned = played.epoch() - before
    acted = healed["counts"]["held-fetches"]["acted"]
    states = played.states_of(follower, began)
    return {"burned": burned, "deposed": after != leader, "states": states, "acted": acted, "holding": holding}


async def fetches_held_with_pre_vote(directory: Path) -> dict[str, Any]:
    """Held until the follower has been Prospective and Follower again."""
    async with quorum(directory) as played:

        def came_back(follower: int, since: int) -> bool:
            return played.states_of(follower, since)[:2] == ["Prospective", "Follower"]

        return await _hold_fetches(played, came_back)


async def fetches_held_without_pre_vote(directory: Path) -> dict[str, Any]:
    """Held until the follower has burned an epoch."""
    async with quorum(directory, pre_vote="false") as played:
        before = played.epoch()
        return await _hold_fetches(played, lambda _follower, _since: played.epoch() > before)


async def _no_pre_vote(directory: Path, action: RpcAction) -> dict[str, Any]:
    """The leader dies while no PreVote request reaches anyone; then the rule goes."""
    async with quorum(directory) as played:
        rule = RpcRule("pre-votes", RpcMatch((Api.VOTE,), pre_vote=True), action)
        leader, before, began = await played.settled(), played.epoch(), len(played.seen)
        await played.rpcs.replace([rule])
        await played.processes.kill(leader)
        await played.until(lambda: both_are_prospective(played, leader, began), "both others are Prospective")
        await played.acted("pre-votes", times=4)
        meanwhile = {state for node in (1, 2, 3) for state in played.states_of(node, began)}
        burned = played.epoch() - before
        healed = await rpc.heal(played.context)
        await played.until(lambda: played.leader() not in (None, leader), "another leads")
        return {"meanwhile": sorted(meanwhile), "burned": burned, "acted": healed["counts"]["pre-votes"]["acted"] >= 4}


def both_are_prospective(played: Quorum, dead: int, since: int) -> bool:
    return all("Prospective" in played.states_of(node, since) for node in (1, 2, 3) if node != dead)


async def pre_votes_dropped(directory: Path) -> dict[str, Any]:
    return await _no_pre_vote(directory, DROP)


async def pre_votes_answered_with_an_error(directory: Path) -> dict[str, Any]:
    return await _no_pre_vote(directory, answer(BROKER_NOT_AVAILABLE))


async def nothing_matches(directory: Path) -> dict[str, Any]:
    """Rules are in listener and meet no message."""
    async with quorum(directory) as played:
        leader, before = await played.settled(), played.epoch()
        deed = intercept(RpcRule("end-txn", RpcMatch((Api.END_TXN,)), DROP)).value
        await inject(played.context, deed)
        commits = await played.commits()
        counts = await played.rpcs.counts()
        try:
            await rpc.heal(played.context)
            verdict = "healed"
        except PeerFailure as failure:
            verdict = str(failure)
        unchanged = (played.leader(), played.epoch()) == (leader, before)
        matched = counts["end-txn"].matched
        return {"commits": commits, "unchanged": unchanged, "matched": matched, "verdict": verdict}


async def proxy_killed(directory: Path) -> dict[str, Any]:
    """The proxy dies, the rules are healed, and then there is another proxy."""
    async with quorum(directory) as played:
        ways: dict[str, list[str]] = {}

        async def look(name: str) -> None:
            ways[name] = sorted(set((await played.rpcs.ways(EVERY_LINK)).values()))

        await played.rpcs.replace([RpcRule("slow", RpcMatch((Api.FETCH,)), delay(1))])
        await look("with a proxy")
        assert played.rpcs.pid is not None
        os.kill(played.rpcs.pid, signal.SIGKILL)
        await played.until(lambda: played.rpcs.pid is None, "the proxy is gone")
        await look("killed")
        await rpc.heal(played.context)
        await look("healed")
        await played.settled()
        commits = await played.commits()
        await played.rpcs.replace([RpcRule("slow", RpcMatch((Api.FETCH,)), delay(1))])
        await look("with another")
        await played.acted("slow", times=5)
        await rpc.heal(played.context)
        await played.settled()
        return {"ways": ways, "commits": commits}


async def everything_recorded(directory: Path) -> dict[str, Any]:
    """A leader is elected, records are committed, the leader dies and another is elected, all on record."""
    rows_path = directory / "rows.jsonl"
    directory.mkdir(parents=True, exist_ok=True)
    async with quorum(directory, Recording(rows_path, time.monotonic_ns())) as played:
        await played.commits()
        leader = await played.settled()
        await played.processes.kill(leader)
        await played.until(lambda: played.leader() not in (None, leader), "another leads")
        final, epoch = played.leader(), played.epoch()
    rows = list(read_rows(rows_path))
    asked = {(row.source, row.target, row.correlation_id, row.api_key) for row in rows if row.direction == "request"}
    replied = {(row.target, row.source, row.correlation_id, row.api_key) for row in rows if row.direction == "response"}
    votes = [row for row in rows if row.api_key == Api.VOTE]
    granted = [row for row in votes if row.granted]
    return {
        "responses answer requests": replied <= asked,
        "times grow": [row.time_ns for row in rows] == sorted(row.time_ns for row in rows) and rows[0].time_ns > 0,
        "flags of votes": sorted({row.pre_vote for row in votes if row.direction == "request"}),
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
    """A client's EndTxn is held, the client closes, the rule goes: what the server saw, and when."""
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
        # A second connection passes while the first is held: when it has been served, the held one had its chance.
        other = await _ask(hosts, 1, 2, VERSIONS)
        before = [arrived.get_nowait()[1] == VERSIONS for _ in range(arrived.qsize())]
        await rpcs.replace([])
        late = await asyncio.wait_for(arrived.get(), DEADLINE_SECONDS)
        passed_source = await _ask(hosts, 1, 2, VERSIONS) == other == hosts.views[1].address.encode()
        return {"before": before, "late": late[1] == END_TXN, "source kept": passed_source}


async def nobody_listens(directory: Path) -> dict[str, Any]:
    """A connection through the proxy to a node that is not there."""
    async with NamespaceHosts.up(directory, 2) as hosts, NamespaceRpcs.up(hosts) as rpcs:
        try:
            answered = await _ask(hosts, 1, 2, VERSIONS)
            ended = "closed" if answered == b"" else "answered"
        except ConnectionResetError:
            ended = "reset"
        ways = await rpcs.ways([(1, 2), (CLIENTS, 2)])
        return {"ended": ended, "node": ways[(1, 2)], "client": ways[(CLIENTS, 2)]}


async def cut_link(directory: Path) -> dict[str, Any]:
    """A request on a cut link, given up before the link is mended, and one after that."""
    async with NamespaceHosts.up(directory, 2) as hosts, NamespaceRpcs.up(hosts) as rpcs:
        arrived: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        await _serve(hosts, 2, arrived)
        links = NamespaceLinks(hosts)
        await links.cut([(1, 2)])
        try:
            async with asyncio.timeout(0.5):
                await _ask(hosts, 1, 2, END_TXN)
            answered = True
        except TimeoutError:
            answered = False
        way = (await rpcs.ways([(1, 2)]))[(1, 2)]
        await _until_nobody_connects(hosts, 1)
        await links.heal()
        await _ask(hosts, 1, 2, VERSIONS)
        frames = [arrived.get_nowait()[1] for _ in range(arrived.qsize())]
        return {
            "answered": answered,
            "way": way,
            "arrived": ["versions" if f == VERSIONS else "end-txn" for f in frames],
        }


async def _until_nobody_connects(hosts: NamespaceHosts, node: int) -> None:
    """Wait until no connection of the node's, the proxy's for it included, is under way (SYN-SENT)."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while (await run(hosts.enter(node, ["ss", "-Htn", "state", "syn-sent"]))).strip():
        assert asyncio.get_running_loop().time() < deadline, "a connection is still under way"
        await asyncio.sleep(0.01)


async def large_frames(directory: Path) -> dict[str, Any]:
    """Requests of many megabytes, delayed one behind the other, whole and in order."""
    async with NamespaceHosts.up(directory, 2) as hosts, NamespaceRpcs.up(hosts) as rpcs:
        arrived: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        await _serve(hosts, 2, arrived)
        await rpcs.replace([RpcRule("slow", RpcMatch((Api.API_VERSIONS,), nth=1), delay(200))])
        sizes = [1, 20_000_000, 5_000_000]
        frames = [_padded(VERSIONS, size) for size in sizes]
        await _ask(hosts, 1, 2, b"".join(frames), responses=len(frames))
        return {"whole": [arrived.get_nowait()[1] == frame for frame in frames]}


def _padded(frame: bytes, size: int) -> bytes:
    body = frame[4:] + bytes(size)
    return len(body).to_bytes(4, "big") + body


VERSIONS = codec.encode_request(codec.build(Api.API_VERSIONS, 0, "request", {}), 3, "node")


async def _serve(hosts: NamespaceHosts, node: int, arrived: asyncio.Queue[tuple[str, bytes]]) -> None:
    """A server on a node that answers each frame with its sender's address."""
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


async def _ask(hosts: NamespaceHosts, source: int, target: int, request: bytes, responses: int = 1) -> bytes:
    """What a node asks on a connection of its own; the last response's body."""
    namespace = Namespace(hosts.network_namespace(source))
    asking = await namespace.make(lambda: outgoing(hosts.views[source].address, marked=False))
    namespace.close()
    await asyncio.get_running_loop().sock_connect(asking, (hosts.views[target].address, 9093))
    reader, writer = await asyncio.open_connection(sock=asking)
    try:
        writer.write(request)
        for _ in range(responses):
            head = await reader.readexactly(8)
            body = await reader.readexactly(int.from_bytes(head[:4], "big") - 4)
        return body
    finally:
        writer.close()


SCENES = [
    fetches_held_with_pre_vote,
    fetches_held_without_pre_vote,
    pre_votes_dropped,
    pre_votes_answered_with_an_error,
    nothing_matches,
    proxy_killed,
    everything_recorded,
    client_leaves_while_held,
    nobody_listens,
    cut_link,
    large_frames,
]

if __name__ == "__main__":
    scene = {each.__name__: each for each in SCENES}[sys.argv[1]]
    print(json.dumps(asyncio.run(scene(Path(sys.argv[2])))))
