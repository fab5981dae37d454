"""The probe of Kafka and of the reference quorum, and what it refuses before the run.

Contains which listeners, files and releases a system gives the probe. Does not contain how it asks (nodes.probe).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from harness.model import BadInput
from harness.model.expected import values_of
from harness.model.faults.probe import ASK, OWN_TOOLS, RUN_TOOL, Probe
from harness.model.layouts import CONTROLLER_PORT
from harness.model.placeholders import examples, fill, names_in
from harness.model.story import Step
from harness.model.systems import NodeAccess
from harness.systems.kraft import cluster_id
from nodes.kafka.tools import main_class, tool_command, tools_release
from nodes.probe.facts import ClusterFacts
from nodes.probe.probe import NodeProbe
from nodes.wire.entities import refuse_expectation, request_of

CLIENT_ID = "splitbrain-probe"
NO_BROKERS = "the nodes have no listener for clients; use --system kafka with --layout combined or zookeeper"


@asynccontextmanager
async def open_probe(
    access: NodeAccess, controllers: Mapping[int, int], client_port: int, brokers: Collection[int], tools_version: str
) -> AsyncIterator[Probe]:
    """The probe of a running cluster. controllers are the ports of its controllers, none if it is no quorum.

    tools_version is that of the tools, "" for the newest installed.
    """
    views = access.views
    ports = {"controller": controllers, "client": dict.fromkeys(views, client_port)}
    facts = ClusterFacts(
        {node: access.connect(node, port, CLIENT_ID) for node, port in controllers.items()},
        access.leader,
        {node: f"{views[node].address}:{port}" for node, port in controllers.items()},
        {node: f"{views[node].address}:{client_port}" for node in brokers},
        access.stored_epoch,
        cluster_id(access.cluster.seed) if controllers else None,
    )
    probe = NodeProbe(
        facts,
        lambda node, listener: access.connect(node, ports[listener].get(node, CONTROLLER_PORT), CLIENT_ID),
        lambda tool, arguments: _command(tool, arguments, tools_version),
    )
    try:
        yield probe
    finally:
        await probe.close()


def _command(tool: str, arguments: Sequence[str], tools_version: str) -> list[str]:
    """The command that runs one of Kafka's tools, or of ours."""
    if tool in OWN_TOOLS:
        return [sys.executable, "-P", "-m", "harness.commands", tool, *arguments]
    return tool_command(tools_release(tools_version), tool, arguments)


def why_refused(step: Step, tools_version: str, has_brokers: bool) -> str | None:
    """Why a step of the probe does not suit the system, None if it does or is not one; in the words of BadInput."""
    check: Callable[[Mapping[str, Any], str], None] | None = {ASK: _check_ask, RUN_TOOL: _check_tool}.get(step.f)
    if check is None:
        return None
    try:
        if not has_brokers:
            _refuse_brokers(step.value)
        check(step.value, tools_version)
    except BadInput as error:
        name = step.value.get("name")
        return f"{name}: {error}" if name else str(error)
    return None


def _refuse_brokers(value: Mapping[str, Any]) -> None:
    if value.get("listener") == "client":
        raise BadInput(f"listener: {NO_BROKERS}")
    for name in sorted(names_in(value)):
        if name.endswith(("_broker", "brokers")):
            raise BadInput(f"placeholder ${name}: {NO_BROKERS}")


def _check_ask(value: Mapping[str, Any], _tools_version: str) -> None:
    """Whether the request can be built, and its response have what is expected, with some value of each placeholder."""
    api, version, facts = value["api"], value["version"], examples()
    request_of(api, version, fill(value.get("values", {}), facts))
    for path, expected in value.get("expect", {}).items():
        for each in values_of(expected):
            refuse_expectation(api, version, path, fill(each, facts))


def _check_tool(value: Mapping[str, Any], tools_version: str) -> None:
    if value["tool"] not in OWN_TOOLS:
        main_class(tools_release(tools_version), value["tool"])
