"""The names that a package of systems, workloads, faults, checks or scenarios needs, in one place.

    import harness.extension as splitbrain

    ETCD = splitbrain.SystemKind(name="etcd", node=…, observe=…, ports=…)

docs/extending.md explains each kind; docs/examples/etcd is a package with most of them. Checks need Spark and import
`Check` and `finding` from checkers.framework.contract; kinds of host import `HostKind` from harness.model.hosts.

Contains re-exports. Does not contain code.
"""

from harness.model import BadInput, EnvironmentFailure, Observation, Op, PeerFailure
from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    LEADER_KNOWN,
    Condition,
    all_follow,
    is_candidate,
    is_not_leader,
)
from harness.model.faults.probe import ask, run_tool
from harness.model.hosts import Host, HostView, UndoRecord
from harness.model.scenario import Expectation, Scenario, Setup, Side, Source, on
from harness.model.session import NoAnswer, NotSent
from harness.model.story import FOLLOWERS, LEADER, Step, cut, heal, kill, partition, pause, restart, sleep, wait_until
from harness.model.systems import ClusterSpec, NodeCommand, NodeFiles, ObserverContext, SystemKind
from harness.model.transition_rules import AllowedStep, TransitionRules
from nemesis.arguments import Arguments, OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault
from nemesis.faults import process
from nodes.hosts.command_node import CommandNode
from nodes.observe.polling import PollingObserver, Status
from workloads.register import RegisterClient, registers
from workloads.workload import ClusterAccess, Workload, WorkloadKind, WorkloadSpec, needs_brokers

__all__ = [name for name in dir() if not name.startswith("_")]
