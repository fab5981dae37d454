"""The JVMs of this process: one for each set of releases, started at its first simulation, ended with the process.

A JVM also ends when its standard input does, so none outlives a process that was killed.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from nodes.simulation.cluster import Observe, SimulationSpec
from nodes.simulation.kafka.cluster import KafkaCluster
from nodes.simulation.kafka.driver_process import RaftDriver
from nodes.simulation.kafka.jars import RaftLibrary
from nodes.simulation.kafka.playing import play
from nodes.simulation.schedule import Played, ScheduledRun

IDLE_INTERVAL = "metadata.max.idle.interval.ms"
"""The property of a QuorumController that says how often it writes a NoOpRecord; those of node 1 count for all."""
IDLE_INTERVAL_MS = "500"
NOT_OF_RAFT = frozenset({IDLE_INTERVAL, "broker.session.timeout.ms", "broker.heartbeat.interval.ms"})
"""The properties that the Raft client does not get: the one above, and those of brokers, of which there are none."""

_DRIVERS: dict[tuple[str, ...], RaftDriver] = {}


def simulated_kafka(version: str, spec: SimulationSpec, observe: Observe) -> KafkaCluster:
    """A cluster of this release, except for nodes that run another. The one before it must have been closed.

    Raises BadInput for a release or a specification that cannot be simulated, EnvironmentFailure without its jars or
    without a JDK.
    """
    return KafkaCluster(driver_of(*_releases(version, spec)), _of_raft(spec), observe, _idle_interval_ms(spec))


def play_kafka(version: str, runs: Sequence[ScheduledRun]) -> list[Played]:
    """Carry out schedules on clusters of this release, one after the other. Raises as simulated_kafka does."""
    keyed = [((_releases(version, run.spec), _idle_interval_ms(run.spec)), _of_raft(run.spec), run) for run in runs]
    return [
        played
        for (releases, idle_ms), group in groupby(keyed, key=itemgetter(0))
        for played in play(driver_of(*releases), [replace(run, spec=spec) for _, spec, run in group], idle_ms)
    ]


def driver_of(*versions: str) -> RaftDriver:
    """The driver of this process for releases, started on first use. Raises as simulated_kafka does."""
    if versions not in _DRIVERS:
        library = RaftLibrary.default()
        _DRIVERS[versions] = RaftDriver(*[asyncio.run(library.resolve(version)) for version in versions])
        atexit.register(_DRIVERS[versions].close)
    return _DRIVERS[versions]


def _releases(version: str, spec: SimulationSpec) -> tuple[str, ...]:
    """The cluster's release first, and those that other nodes run."""
    return version, *sorted({other for other in spec.versions.values() if other != version})


def _of_raft(spec: SimulationSpec) -> SimulationSpec:
    of_raft = {
        node: {name: value for name, value in properties.items() if name not in NOT_OF_RAFT}
        for node, properties in spec.switches.items()
    }
    return replace(spec, switches=of_raft)


def _idle_interval_ms(spec: SimulationSpec) -> int:
    return int(spec.switches.get(1, {}).get(IDLE_INTERVAL, IDLE_INTERVAL_MS))
