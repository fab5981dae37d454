"""etcd as a system under test, with a workload, a fault and a scenario of its own.

The package registers each value in its pyproject.toml; splitbrain itself is unchanged. Clients use etcd's JSON gateway.
`SPLITBRAIN_ETCD` names the etcd binary where it is not on the path.
"""

import asyncio
import base64
import json
import os
import shutil
import urllib.request
from functools import partial

import harness.extension as sb

CLIENT_PORT, PEER_PORT, TIMEOUT_SECONDS = 2379, 2380, 1.0
PATHS = {"write": "kv/put", "read": "kv/range"}


def call(address, path, body):
    """One request to etcd's JSON gateway. Raises OSError where etcd cannot be reached or refuses."""
    request = urllib.request.Request(f"http://{address}:{CLIENT_PORT}/v3/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        return json.load(response)


def node(version, switches, _cluster):
    """What one node runs; switches are etcd's configuration keys."""
    binary = shutil.which(os.environ.get("SPLITBRAIN_ETCD", "etcd"))
    if version or not binary:
        raise sb.BadInput("--system etcd: expected no version, and etcd on the path or in SPLITBRAIN_ETCD")

    def configuration(view, views):
        """etcd.yml; JSON is YAML too."""
        peers = {number: f"http://{each.address}:{PEER_PORT}" for number, each in views.items()}
        cluster = ",".join(f"n{number}={url}" for number, url in peers.items())
        own = {"name": f"n{view.node}", "data-dir": str(view.directory / "data"), "initial-cluster": cluster}
        own |= dict.fromkeys(("listen-client-urls", "advertise-client-urls"), f"http://{view.bound}:{CLIENT_PORT}")
        own |= {"listen-peer-urls": f"http://{view.bound}:{PEER_PORT}", "initial-advertise-peer-urls": peers[view.node]}
        return {"etcd.yml": json.dumps({**own, "enable-grpc-gateway": True, **switches})}

    return sb.CommandNode("etcd", lambda view: [binary, "--config-file", f"{view.directory}/etcd.yml"], configuration)


async def status(view):
    """A node's status; None where it does not answer."""
    try:
        found = await asyncio.to_thread(call, view.bound, "maintenance/status", {})
    except OSError:
        return None
    return sb.Status(int(found.get("raftTerm", 0)), found["header"]["member_id"], found.get("leader", ""))


class RegisterSession:
    """harness.model.session.Session: a register per key, at one node; reads are linearizable unless serializable."""

    def __init__(self, access, process, serializable=False):
        self.node, self.serializable = access.nodes[process % len(access.nodes)], serializable
        self.address = access.addresses[self.node]

    async def invoke(self, op):
        """One request; a write that may have been received is `info`."""
        op, write = sb.Op("invoke", op.f, op.process, op.key, op.value, self.node), op.f == "write"
        body = {"value": encoded(op.value)} if write else {"serializable": self.serializable}
        try:
            found = await asyncio.to_thread(call, self.address, PATHS[op.f], {"key": encoded(op.key), **body})
        except OSError as error:
            refused = isinstance(getattr(error, "reason", None), ConnectionRefusedError)
            return op.fail(str(error)) if refused or not write else op.info(str(error))
        values = [json.loads(base64.b64decode(each["value"])) for each in found.get("kvs", [])]
        return op.ok() if write else op.ok(values[0] if values else None)

    async def close(self):
        """Every request has a connection of its own."""


def encoded(value):
    """A value as etcd's gateway takes it."""
    return base64.b64encode(json.dumps(value).encode()).decode()


def etcd_register(spec):
    """Registers whose reads are serializable with `--option serializable=true`."""
    session = partial(RegisterSession, serializable=spec.options["serializable"] == "true")
    return sb.registers("etcd-register", sb.RegisterClient(session, "register"))


async def stutter(context, _action, resolved):
    """Pause the nodes and resume them at once, three times; each step verifies the state of the processes."""
    for action in ("pause", "resume") * 3:
        await sb.process.inject(context, action, resolved)
    return {**resolved, "label": f"{', '.join(f'n{node}' for node in resolved['nodes'])} stuttered"}


ETCD = sb.SystemKind(
    name="etcd",
    summary="etcd, by its JSON gateway",
    node=node,
    observe=partial(sb.PollingObserver, ask=status),
    ports=lambda _layout: (CLIENT_PORT, PEER_PORT),
    clients={"register": sb.RegisterClient(RegisterSession, "register")},
    checks=("etcd-terms",),
    unavailable=lambda _layout, _voters: {"rpc": "the proxy does not know etcd's protocol"},
)
WORKLOAD = sb.WorkloadKind("etcd-register", "registers of etcd", etcd_register, {"serializable": ("false", "true")})
STUTTER = sb.Fault(
    name="stutter",
    summary="servers stop and continue in quick succession",
    actions={"stutter": sb.Action(sb.OnNodes, momentary=True)},
    inject=stutter,
    sample=lambda _random, _nodes: [sb.Step("stutter", {"who": sb.LEADER})],
    trials=((sb.Step("stutter", {"who": "n1"}),),),
)
LEADER_KNOWN = sb.wait_until(sb.LEADER_KNOWN)
ETCD_01 = sb.Scenario(
    id="ETCD-01",
    title="Serializable reads of a partitioned leader are stale",
    question="Does a partitioned leader return values that others have overwritten?",
    source=sb.Source("etcd", "API guarantees"),
    nodes=3,
    story=(LEADER_KNOWN, sb.sleep(1), sb.cut(sb.LEADER), sb.sleep(6), sb.heal(), LEADER_KNOWN),
    bad=sb.Side({"etcd": sb.Setup()}, breaks=("non-linearizable",), workload_options={"serializable": "true"}),
    good=sb.Side({"etcd": sb.Setup()}),
    workload="etcd-register",
)
SCENARIOS = (ETCD_01,)
