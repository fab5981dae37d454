"""No hosts: the nodes of a run are simulated in its controller, under virtual time (harness.simulating)."""

from __future__ import annotations

from contextlib import AsyncExitStack

from harness.environments import Environment, EnvironmentSpec
from harness.model import EnvironmentFailure
from harness.model.hosts import HostKind


async def provision(_stack: AsyncExitStack, _spec: EnvironmentSpec) -> Environment:
    """Nothing can be provisioned. Raises EnvironmentFailure."""
    raise EnvironmentFailure("--hosts simulation: there are no hosts to provision, nodes run in the controller")


SIMULATION = HostKind("simulation", provision, simulated=True)
