"""What a workload is to the harness.

A workload is pure but for its sessions: operation() maps a number and a draw to an invocation, and the composition
makes generators of it. checks name the checks that judge its history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.model import BadInput, Op
from harness.model.session import Connection, Session

Connect = Callable[[int], Connection]
"""A new connection to a node, opened at its first use."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How a workload reaches the nodes: connections of ours, and the addresses that clients of Kafka's own dial.

    connect leads to the controllers' listener, connect_client to that of the brokers' clients.
    """

    connect: Connect
    addresses: Mapping[int, str]
    connect_client: Connect

    @property
    def nodes(self) -> Sequence[int]:
        """The nodes' numbers, in order."""
        return sorted(self.addresses)


MakeSession = Callable[[ClusterAccess, int], Session]
"""The session of a process, given how to reach the nodes, and the process's number."""

Prepare = Callable[[ClusterAccess], Awaitable[None]]
"""What must be there before clients begin; raises PeerFailure where it does not come about."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload by name; one without operations leaves the system alone.

    read gives the operations of half the processes, which so stay with a node that goes on answering though no write
    would return from it. final_operations are asked once everything is healed, each until it is ok, after the mark
    `final`. prepare is carried out before anything else is asked. script is what one process does, in order, in the
    place of operation; it begins once everything is in place that the story has before it first lets time pass.
    """

    name: str
    summary: str
    checks: tuple[str, ...]
    operation: Callable[[int, int], Op] | None = None
    read: Callable[[int, int], Op] | None = None
    final_operations: tuple[Op, ...] = ()
    make_session: MakeSession | None = None
    """None, as read is, exactly where operation is."""
    prepare: Prepare | None = None
    script: tuple[Op, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether no client asks anything."""
        return self.operation is None


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What a plan asks of a workload.

    system is the system's name for messages, layout that of its nodes, clients what the system offers workloads
    (harness.model.systems.SystemKind.clients), options the workload's own, by name.
    """

    system: str
    layout: str = "controllers"
    clients: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A workload by name, registered with the entry point group `splitbrain.workloads`.

    make raises BadInput where the system cannot serve the workload, and for an unknown option.
    """

    name: str
    summary: str
    make: Callable[[WorkloadSpec], Workload]


def refuse_options(name: str, spec: WorkloadSpec) -> None:
    """Raise BadInput for a workload that takes no options but was given some."""
    if spec.options:
        raise BadInput(f"workload {name}: expected no options, found {', '.join(spec.options)}")


def needs_brokers(name: str, summary: str, make: Callable[[Mapping[str, str]], Workload]) -> WorkloadKind:
    """A workload that sends to brokers, made from its options. make raises BadInput for an unknown option."""

    def make_on(spec: WorkloadSpec) -> Workload:
        if "brokers" not in spec.clients or spec.layout != "combined":
            raise BadInput(
                f"workload {name}: expected --system kafka --layout combined, found --system {spec.system} "
                f"--layout {spec.layout}, which has no brokers"
            )
        return make(spec.options)

    return WorkloadKind(name, summary, make_on)
