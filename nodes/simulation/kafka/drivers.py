"""The JVMs of this process: one for each release, started at its first simulation, ended with the process.

A JVM also ends when its standard input does, so none outlives a process that was killed.
"""

from __future__ import annotations

import asyncio
import atexit
from dataclasses import replace

from nodes.simulation.cluster import Observe, SimulationSpec
from nodes.simulation.kafka.cluster import KafkaCluster
from nodes.simulation.kafka.driver_process import RaftDriver
from nodes.simulation.kafka.jars import RaftLibrary

IDLE_INTERVAL = "metadata.max.idle.interval.ms"
"""The property of a QuorumController that says how often it writes a NoOpRecord; those of node 1 count for all."""
IDLE_INTERVAL_MS = "500"
NOT_OF_RAFT = frozenset({IDLE_INTERVAL, "broker.session.timeout.ms", "broker.heartbeat.interval.ms"})
"""The properties that the Raft client does not get: the one above, and those of brokers, of which there are none."""

_DRIVERS: dict[str, RaftDriver] = {}


def simulated_kafka(version: str, spec: SimulationSpec, observe: Observe) -> KafkaCluster:
    """A cluster of this release. The one before it on the same release must have been closed.

    Raises BadInput for a release or a specification that cannot be simulated, EnvironmentFailure without its jars or
    without a JDK.
    """
    of_raft = {
        node: {name: value for name, value in properties.items() if name not in NOT_OF_RAFT}
        for node, properties in spec.switches.items()
    }
    driver = _DRIVERS.get(version)
    if driver is None:
        release = asyncio.run(RaftLibrary.default().resolve(version))
        driver = _DRIVERS[version] = RaftDriver(release)
        atexit.register(driver.close)
    idle_interval_ms = int(spec.switches.get(1, {}).get(IDLE_INTERVAL, IDLE_INTERVAL_MS))
    return KafkaCluster(driver, replace(spec, switches=of_raft), observe, idle_interval_ms)
