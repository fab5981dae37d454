"""The switches of brokers: which values are refused, and what is said then."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from harness.model import BadInput
from harness.model.hosts import Host, HostView
from nodes.reference.system import ReferenceSystem, check_switches

USERS = "expected NAME:PASSWORD,…, got "


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("reference.users", "alice", f"{USERS}'alice'"),
        ("reference.users", "alice:", f"{USERS}'alice:'"),
        ("reference.users", "alice:a:b", f"{USERS}'alice:a:b'"),
        ("reference.users", "", f"{USERS}''"),
        ("unclean.recovery.strategy", "Quick", "expected None or Balanced or Aggressive"),
        ("unclean.recovery.timeout.ms", "0", "expected a number of at least 1, got '0'"),
        ("group.initial.rebalance.delay.ms", "-1", "expected a number of at least 0, got '-1'"),
        ("offsets.topic.num.partitions", "many", "expected a number of at least 1, got 'many'"),
        ("reference.last_written_epochs", "1", "expected true or false, got '1'"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_switches({name: value})
    assert str(refused.value) == f"--switch: {name}: {reason}"


@pytest.mark.parametrize(
    ("name", "value"), [("reference.users", "alice:a,bob:b"), ("group.initial.rebalance.delay.ms", "0")]
)
def test_a_value_that_fits_is_accepted(name: str, value: str) -> None:
    check_switches({name: value})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("splitbrain.controller.port", "80", "expected a port, 1024 to 65535"),
        ("splitbrain.format", "twice", "expected standalone"),
    ],
)
def test_a_wrong_property_of_splitbrain_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_switches({name: value})
    assert str(refused.value) == f"{name}={value}: {reason}"


def properties_of(node: int, switches: dict[str, str]) -> dict[str, str]:
    """The properties file that splitbrain writes for a node of four, of which the first three are the voters."""
    hosts = {each: HostView(each, f"10.0.0.{each}", f"n{each}", Path(f"n{each}")) for each in (1, 2, 3, 4)}
    directories = {each: f"directory-{each}" for each in hosts}
    switches = {"reference.voter_changes": "kip-853", **switches}
    system = ReferenceSystem(switches, "cluster", 0, [1, 2, 3], directories=directories)
    written: list[str] = []

    class Files:
        view = hosts[node]

        async def write(self, _path: Path, text: str) -> None:
            written.append(text)

    asyncio.run(system.prepare(cast("Host", Files()), hosts))
    return dict(line.split("=", 1) for line in written[0].splitlines())


def test_properties_of_splitbrain_become_those_of_the_node() -> None:
    properties = properties_of(
        4,
        {
            "splitbrain.controller.port": "9095",
            "splitbrain.bootstrap.nodes": "1,3",
            "splitbrain.format": "standalone",
            "splitbrain.cluster.id": "other",
        },
    )
    assert properties["listeners"] == "CONTROLLER://10.0.0.4:9095"
    assert properties["controller.quorum.bootstrap.servers"] == "10.0.0.1:9093,10.0.0.3:9093"
    assert properties["reference.initial_controllers"] == "4@10.0.0.4:9093:directory-4"
    assert properties["cluster.id"] == "other"
    assert not [name for name in properties if name.startswith("splitbrain.")]


def test_node_that_is_no_initial_voter_waits_for_the_quorum() -> None:
    properties = properties_of(4, {})
    assert "reference.initial_controllers" not in properties
    assert properties["controller.quorum.bootstrap.servers"].count("10.0.0.") == 4


def test_bootstrap_nodes_are_nodes_of_the_cluster() -> None:
    with pytest.raises(BadInput, match=r"expected numbers of nodes, among 1,2,3,4"):
        properties_of(4, {"splitbrain.bootstrap.nodes": "1,7"})
