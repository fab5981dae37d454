"""Voters of a quorum move while clients read and write registers in its metadata.

One process changes the voters, one operation after another, each again until it is ok: from the first nodes, which are
the initial voters, to the last ones, and back. Where the quorum is reassigned as a whole (KIP-642), an operation names
all voters; the process waits until they vote, or, every other time, names the others soon after. With KIP-853 an
operation adds or removes one voter, and an addition precedes each removal. Other processes use registers
(workloads.register), and some reads ask for the voters instead.

With the option `partitions` = move, on nodes that are brokers too, the same process also moves the partitions of the
log's topic (workloads.log) from the first brokers to the last and back, between the changes of the voters. Every other
operation of the other processes sends to that topic, polls it, or asks where a partition is.

    make(WorkloadSpec("kafka", nodes=6, voters=3, clients=…)).changes     # add_voter n4, remove_voter n1, …

Contains which operations there are and in which order. They are carried out by nodes.probe.voter_session and
nodes.probe.partition_session, and judged by checkers.quorum.voter_changes and the checks of registers and logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest

from harness.model import BadInput, Op
from harness.model.session import Session
from workloads import log, register
from workloads.log_session import LogSession
from workloads.log_topic import PARTITIONS, REPLICAS_MAX, create, key_of
from workloads.register import RegisterClient
from workloads.workload import BROKERS, ClusterAccess, MakeSession, Workload, WorkloadKind, WorkloadSpec

NAME = "reassignment"
CHECK = "voter-changes"
VOTERS = "voters"
"""The key of operations on all voters, and what a system's clients has for them (SystemKind.clients)."""
READS = 8
"""One read in so many asks for the voters."""
READ, SETTLE = Op("invoke", "voters", key=VOTERS), Op("invoke", "settle", key=VOTERS)
REASSIGN, ADD, REMOVE = "reassign", "add_voter", "remove_voter"
OF_VOTERS = (READ.f, SETTLE.f, REASSIGN, ADD, REMOVE)
MOVE, PARTITION, MOVED = "move", "partition", "moved"
OF_PARTITIONS = (MOVE, PARTITION, MOVED)
OF_LOG = ("send", "poll", "assign", "drain")
MOVES = "partitions"
"""The option, and what a system's clients has for moves: a function that makes a session."""
CHOICES: Mapping[str, tuple[str, ...]] = {MOVES: ("stay", "move")}
LOG_OPTIONS = log.LogOptions(**{name: values[0] for name, values in log.CHOICES.items()})


@dataclass(frozen=True, slots=True)
class VotersClient:
    """How a system serves operations on voters.

    as_a_whole: one request names all voters (KIP-642). requires: the values that switches must have, by name. A system
    with several ways to change voters has one client for each.
    """

    make_session: MakeSession
    as_a_whole: bool
    requires: Mapping[str, str] = field(default_factory=dict)


class ReassignmentSession:
    """harness.model.session.Session: passes each operation to the session that it belongs to."""

    def __init__(
        self, voters: Session, registers: Session, partitions: Session | None = None, log: Session | None = None
    ) -> None:
        """partitions and log are there if partitions are moved."""
        by_operation = {OF_VOTERS: voters, OF_PARTITIONS: partitions, OF_LOG: log}
        self._sessions = {f: session for fs, session in by_operation.items() if session for f in fs}
        self._registers = registers

    async def invoke(self, op: Op) -> Op:
        """Carry out one operation."""
        return await self._sessions.get(op.f, self._registers).invoke(op)

    async def close(self) -> None:
        """Close all sessions."""
        for session in dict.fromkeys((*self._sessions.values(), self._registers)):
            await session.close()


def read(number: int, random: int) -> Op:
    """A read of a register, or of the voters."""
    return READ if (random >> 48) % READS == 0 else register.read(number, random)


def mixed_read(number: int, random: int) -> Op:
    """A read of a register or of the voters, a poll, or a question where a partition is."""
    if (random >> 40) % 2:
        return read(number, random)
    if (random >> 48) % READS == 0:
        return Op("invoke", PARTITION, key=key_of(random % PARTITIONS))
    return LOG_OPTIONS.poll(number, random)


def mixed_operation(number: int, random: int) -> Op:
    """A read or write of a register, or a send."""
    return (register.operation if (random >> 40) % 2 else log.send)(number, random)


def moves(nodes: int) -> Sequence[Op]:
    """The moves of all partitions to the last brokers and back, a second time without waiting for the end."""
    replicas = min(REPLICAS_MAX, nodes - 1)
    there, back = (_moves_to(brokers) for brokers in (range(nodes - replicas + 1, nodes + 1), range(1, replicas + 1)))
    moved = [Op("invoke", MOVED, key=key) for key in _keys()]
    return [*there, *moved, *back, *moved, *there, *back]


def _moves_to(brokers: Iterable[int]) -> list[Op]:
    return [Op("invoke", MOVE, key=key, value=list(brokers)) for key in _keys()]


def _keys() -> list[str]:
    return [key_of(number) for number in range(PARTITIONS)]


def there_and_back(nodes: int, voters: int, as_a_whole: bool) -> Sequence[Op]:
    """The changes from the first nodes to the last and back; as a whole, a second time without waiting for the end."""
    initial, last = range(1, voters + 1), range(nodes - voters + 1, nodes + 1)
    if as_a_whole:
        there, back = (Op("invoke", REASSIGN, key=VOTERS, value=list(target)) for target in (last, initial))
        return [there, SETTLE, back, SETTLE, there, back]
    joining = [node for node in last if node not in initial]
    leaving = [node for node in initial if node not in last]
    return [*_one_by_one(joining, leaving), *_one_by_one(leaving, joining)]


def _one_by_one(joining: Sequence[int], leaving: Sequence[int]) -> Iterator[Op]:
    for new, old in zip(joining, leaving, strict=True):
        yield Op("invoke", ADD, key=f"n{new}")
        yield Op("invoke", REMOVE, key=f"n{old}")


def _ways(spec: WorkloadSpec) -> Sequence[VotersClient]:
    """The ways in which the system's voters can change."""
    offered = spec.clients.get(VOTERS, ())
    return (offered,) if isinstance(offered, VotersClient) else tuple(offered)


def make(spec: WorkloadSpec) -> Workload:
    """The workload. Raises BadInput for a system whose voters cannot change, and without nodes that could vote."""
    place = f"workload {NAME}"
    ways, registers = _ways(spec), spec.clients.get("register")
    if not ways or not isinstance(registers, RegisterClient) or spec.layout == "zookeeper":
        raise BadInput(f"{place}: expected a system whose voters can change, found --system {spec.system}")
    if spec.voters is None or spec.voters >= spec.nodes:
        found = "none" if spec.voters is None else spec.voters
        raise BadInput(f"{place}: expected --voters below the number of nodes, {spec.nodes}; found {found}")
    voters = next((way for way in ways if way.requires.items() <= spec.switches.items()), None)
    if voters is None:
        expected = " or ".join(f"--switch {name}={value}" for way in ways for name, value in way.requires.items())
        found = ", ".join(spec.switches.get(name, "none") for name in {name for way in ways for name in way.requires})
        raise BadInput(f"{place}: expected {expected}, found {found}")
    changes = there_and_back(spec.nodes, spec.voters, voters.as_a_whole)

    def make_session(access: ClusterAccess, process: int) -> Session:
        return ReassignmentSession(voters.make_session(access, process), registers.make_session(access, process))

    base = register.registers(NAME, registers)
    last = changes[-1:] if voters.as_a_whole else [Op("invoke", ADD, key="n1")]
    workload = Workload(
        name=NAME,
        summary=f"voters move between nodes while clients use registers, judged by the check {CHECK}",
        checks=(CHECK, *base.checks),
        operation=register.operation,
        read=read,
        changes=(READ, *changes),
        final_operations=(*last, SETTLE, *base.final_operations),
        make_session=make_session,
        final_reads_lag=base.final_reads_lag,
    )
    return _with_moves(workload, spec, voters, registers) if spec.options.get(MOVES) == "move" else workload


def _with_moves(workload: Workload, spec: WorkloadSpec, voters: VotersClient, registers: RegisterClient) -> Workload:
    """The workload that moves partitions, too. Raises BadInput without brokers."""
    make_partitions = spec.clients.get(MOVES)
    if spec.layout == "controllers" or make_partitions is None or BROKERS not in spec.clients:
        raise BadInput(f"workload {NAME}: option {MOVES}: expected brokers, --layout combined; found {spec.layout}")

    def make_session(access: ClusterAccess, process: int) -> Session:
        return ReassignmentSession(
            voters.make_session(access, process),
            registers.make_session(access, process),
            make_partitions(access, process),
            LogSession(access.addresses, LOG_OPTIONS.producer, LOG_OPTIONS.consumer),
        )

    changes = _by_turns(workload.changes[1:], moves(spec.nodes))
    moved = [Op("invoke", MOVED, key=key) for key in _keys()]
    back = moves(spec.nodes)[-PARTITIONS:]
    of_log = LOG_OPTIONS.final_operations
    return replace(
        workload,
        summary=f"voters and partitions move while clients use registers and a log, judged by the check {CHECK}",
        checks=(*workload.checks, "log"),
        operation=mixed_operation,
        read=mixed_read,
        changes=(READ, *moved, *changes),
        final_operations=(*moved, *back, *moved, *workload.final_operations, *of_log),
        make_session=make_session,
        prepare=lambda access: create(access.addresses),
    )


def _by_turns(voters: Sequence[Op], partitions: Sequence[Op]) -> list[Op]:
    """A change of the voters, then the moves of all partitions, and so on."""
    rounds = [partitions[at : at + PARTITIONS] for at in range(0, len(partitions), PARTITIONS)]
    pairs = zip_longest(([op] for op in voters), rounds, fillvalue=())
    return list(chain.from_iterable(chain.from_iterable(pairs)))


REASSIGNMENT = WorkloadKind(
    NAME, "voters, and partitions too, move between nodes while clients use them", make, CHOICES
)
