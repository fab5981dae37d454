"""What a workload is: operations as pure functions, sessions that carry them out, and the checks of its history.

The composition makes generators of the operations (harness.planning.workloads).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.model import BadInput, Op
from harness.model.session import Connection, Session

Connect = Callable[[int], Connection]
"""A new connection to a node, opened at its first use."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How a workload reaches the nodes.

    connect opens one of our connections to a controller's listener, connect_client to a broker's. controllers are the
    nodes that have the first, in order, with the address by which nodes reach each; addresses, of the nodes that have
    the second, are for client libraries that open connections themselves.
    """

    connect: Connect
    controllers: Sequence[int]
    addresses: Mapping[int, str]
    connect_client: Connect
    controller_addresses: Mapping[int, str] = field(default_factory=dict)

    @property
    def nodes(self) -> Sequence[int]:
        """The nodes that serve clients, in order."""
        return sorted(self.addresses)

    def of_one_node(self, turn: int) -> ClusterAccess:
        """The access to one node alone, which turns 0, 1, … select in order."""
        chosen = self.controllers[turn % len(self.controllers)]
        addresses = {node: address for node, address in self.addresses.items() if node == chosen}
        return replace(self, controllers=(chosen,), addresses=addresses)


MakeSession = Callable[[ClusterAccess, int], Session]
"""Makes a session, from the access to the nodes and the number of the session's process."""

Prepare = Callable[[ClusterAccess], Awaitable[None]]
"""Creates what clients need before they start. Raises PeerFailure."""

OpFunction = Callable[[int, int], Op]
"""Maps a number and a random 64-bit number to an invocation; pure."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload by name; one without operations leaves the system alone.

    - checks judge its history, beside those of every run and of the system.
    - operation maps a number and a random number to an invocation. read does the same for half of the processes, which
      only read, and so stay with a node that still answers although it no longer completes writes.
    - final_operations follow once everything is healed, after the mark `final`. All clients carry out each, one after
      another, until one of them is ok; with final_reads_once, one client does, again until it is ok, and several are
      carried out at a time.
    - can_pin: a session that has access to one node only uses no other one.
    - final_reads_lag: nodes answer final reads from their own state, so the reads wait until all have caught up.
    - prepare runs before the clients start. Raises PeerFailure.
    - question maps a write whose outcome is unknown to the read that shows whether it took effect, None for other
      operations; the read follows seconds later, several times.
    - changes are what one process does beside the others, in order, each again until it is ok, and then from the second
      on again: the first is what it begins with.
    - script is what one process does, in order, instead of operation. It starts after the steps of the story that come
      before its first sleep.
    """

    name: str
    summary: str
    checks: tuple[str, ...]
    operation: OpFunction | None = None
    read: OpFunction | None = None
    final_operations: tuple[Op, ...] = ()
    make_session: MakeSession | None = None
    """None if and only if operation and read are None."""
    prepare: Prepare | None = None
    question: Callable[[Op], Op | None] | None = None
    changes: tuple[Op, ...] = ()
    script: tuple[Op, ...] = ()
    can_pin: bool = False
    final_reads_lag: bool = False
    final_reads_once: bool = False

    @property
    def idle(self) -> bool:
        """Whether there are no clients."""
        return self.operation is None


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What a plan specifies for a workload.

    system is the system's name for messages, layout that of its nodes, clients what the system offers workloads
    (harness.model.systems.SystemKind.clients), options the values of all options of the workload, by name. voters is
    how many of the nodes vote at first, None if all do; switches are those of all nodes.
    """

    system: str
    layout: str = "controllers"
    nodes: int = 3
    voters: int | None = None
    switches: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


BROKERS, GROUPS, TRANSACTIONS = "brokers", "consumer groups", "transactions"
"""What a system with brokers may support for clients: keys of harness.model.systems.SystemKind.clients."""


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A workload by name, registered with the entry point group `splitbrain.workloads`.

    make raises BadInput where the system cannot serve the workload, and for options that exclude each other. options
    has the values of each option, the default first.
    """

    name: str
    summary: str
    make: Callable[[WorkloadSpec], Workload]
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def completed(self, given: Mapping[str, str]) -> dict[str, str]:
        """All options, with the default of each that is not given. Raises BadInput for an unknown name or value."""
        for name, value in given.items():
            place = f"workload {self.name}: option {name}"
            if not self.options:
                raise BadInput(f"{place}: expected no options")
            if name not in self.options:
                raise BadInput(f"{place}: expected one of {', '.join(self.options)}")
            if value not in self.options[name]:
                raise BadInput(f"{place}: expected {' or '.join(self.options[name])}, found {value!r}")
        return {name: values[0] for name, values in self.options.items()} | dict(given)


def needs_brokers(
    name: str,
    summary: str,
    make: Callable[[Mapping[str, str]], Workload],
    options: Mapping[str, tuple[str, ...]] | None = None,
    needs: Callable[[Mapping[str, str]], str] = lambda _: BROKERS,
) -> WorkloadKind:
    """A workload that sends to brokers, made from its options, of which needs says what the brokers must support."""

    def make_on(spec: WorkloadSpec) -> Workload:
        needed = BROKERS if spec.layout == "controllers" else needs(spec.options)
        if needed not in spec.clients or spec.layout == "controllers":
            raise BadInput(
                f"workload {name}: expected --system kafka --layout combined, found --system {spec.system} "
                f"--layout {spec.layout}, which has no {needed}"
            )
        return make(spec.options)

    return WorkloadKind(name, summary, make_on, options or {})
