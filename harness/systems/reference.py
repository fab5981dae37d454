"""The reference system: a quorum (KIP-595, KIP-996), and with --layout combined also brokers, a switch for each fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from harness.model import BadInput
from harness.model.conditions import OF_BROKERS
from harness.model.faults.probe import Probe
from harness.model.layouts import CLIENT_PORT, CONTROLLER_PORT, REPLICATION_PORT, Layout, roles_of
from harness.model.quorum_states import KIP_595_RULES, KIP_996_RULES
from harness.model.story import Step
from harness.model.systems import (
    ClusterSpec,
    NodeAccess,
    NodeNeeds,
    NodeSystem,
    Observer,
    ObserverContext,
    SystemKind,
)
from harness.model.transition_rules import TransitionRules
from harness.systems.kraft import (
    CHECKS,
    cluster_id,
    connect,
    nodes_with,
    observe_quorum,
    open_membership,
    open_requests,
    open_voters,
    partition_session,
    register_client,
    uuid,
    voters_client,
)
from harness.systems.probe import open_probe, why_refused
from nodes.observe.log_batches import QUORUM_LOG
from nodes.reference.properties import is_used, switches
from nodes.reference.system import ReferenceSystem, check_switches
from nodes.simulation.reference.cluster import ReferenceCluster

NAME = "reference"
NEWEST_TOOLS = ""
"""The reference quorum has no tools of its own; those of the newest installed Kafka serve it."""

VOTER_CHANGES = "reference.voter_changes"
NO_BROKERS = "only a cluster with brokers has partitions, topics and sessions; use --layout combined"
VOTERS = {"voters": "the reference quorum changes single voters only with --switch reference.voter_changes=kip-853"}


def _node(version: str, switches: Mapping[str, str], cluster: ClusterSpec) -> NodeSystem:
    if version:
        raise BadInput(f"system {NAME}:{version}: the reference system has no versions; expected --system {NAME}")
    check_switches(switches)
    if Layout(cluster.layout) is Layout.ZOOKEEPER:
        raise BadInput(f"--layout {cluster.layout}: expected controllers or combined with --system {NAME}")
    if cluster.voters is not None and cluster.voters > cluster.nodes:
        raise BadInput(f"--voters {cluster.voters}: expected at most the number of nodes, {cluster.nodes}")
    if cluster.features:
        raise BadInput(f"--feature {', '.join(cluster.features)}: not supported by the reference system")
    roles = roles_of(Layout(cluster.layout), switches)
    voters = list(_controllers(cluster))[: cluster.voters]
    directories = {node: uuid(f"directory {cluster.seed} {node}") for node in _controllers(cluster)}
    return ReferenceSystem(switches, cluster_id(cluster.seed), cluster.seed, voters, roles, directories)


def _controllers(cluster: ClusterSpec) -> dict[int, int]:
    """The port of each controller."""
    return dict.fromkeys(nodes_with(cluster, lambda roles: roles.are_controller), CONTROLLER_PORT)


def _brokers(cluster: ClusterSpec) -> list[int]:
    """The nodes that serve clients."""
    return nodes_with(cluster, lambda roles: roles.are_broker)


def _unavailable(layout: str, _voters: int | None) -> Mapping[str, str]:
    if Layout(layout) is Layout.COMBINED:
        return VOTERS
    return {**VOTERS, **dict.fromkeys((*OF_BROKERS, "membership", "requests"), NO_BROKERS)}


def _enabled(switches: Mapping[str, str]) -> Sequence[str]:
    return tuple(VOTERS) if switches.get(VOTER_CHANGES) == "kip-853" else ()


def _ports(layout: str) -> Sequence[int]:
    return (CONTROLLER_PORT, CLIENT_PORT, REPLICATION_PORT) if Layout(layout) is Layout.COMBINED else (CONTROLLER_PORT,)


def _observe(context: ObserverContext) -> Observer:
    return observe_quorum(context, _controllers(context.cluster), dict.fromkeys(_brokers(context.cluster), CLIENT_PORT))


def _probe(access: NodeAccess) -> AbstractAsyncContextManager[Probe]:
    cluster = access.cluster
    return open_probe(access, _controllers(cluster), CLIENT_PORT, _brokers(cluster), NEWEST_TOOLS)


def _refuses(step: Step, _version: str, layout: str) -> str | None:
    return why_refused(step, NEWEST_TOOLS, has_brokers=Layout(layout) is Layout.COMBINED)


def _rules(_version: str, switches: Mapping[str, str]) -> TransitionRules:
    return KIP_595_RULES if switches.get("reference.pre_vote") == "false" else KIP_996_RULES


def _label(_version: str, switches: Mapping[str, str]) -> str:
    return ReferenceSystem(switches, "", 0).label


REFERENCE = SystemKind(
    name=NAME,
    summary="the bundled reference system: KIP-595 and KIP-996, every fix a switch",
    node=_node,
    observe=_observe,
    node_needs=NodeNeeds(cores=0.15, memory_mib=80),
    ports=_ports,
    label=_label,
    rules=_rules,
    connect=connect,
    clients={
        "register": register_client("leader"),
        "set": "leader",
        "voters": (
            voters_client(as_a_whole=True, requires={VOTER_CHANGES: "kip-642"}),
            voters_client(as_a_whole=False, requires={VOTER_CHANGES: "kip-853"}),
        ),
        "partitions": partition_session,
        **dict.fromkeys(("brokers", "consumer groups"), CLIENT_PORT),
    },
    checks=CHECKS,
    checks_without_scenario=("liveness", "announcements"),
    accepts=is_used,
    unavailable=_unavailable,
    enabled=_enabled,
    membership=lambda access: open_membership(access, _controllers(access.cluster), _brokers(access.cluster)),
    reassignment=lambda access: open_voters(access, _controllers(access.cluster)),
    requests=lambda access: open_requests(access, _controllers(access.cluster), _brokers(access.cluster)),
    switches=switches,
    probe=_probe,
    refuses=_refuses,
    client_port=CLIENT_PORT,
    serving=_brokers,
    controllers=lambda cluster: sorted(_controllers(cluster)),
    metadata_log=QUORUM_LOG,
    simulate=lambda _version, spec, observe: ReferenceCluster(spec, observe),
)
