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
from nodes.simulation.kafka.cluster import KafkaCluster, has_files
from nodes.simulation.kafka.driver_process import RaftDriver
from nodes.simulation.kafka.jars import RaftLibrary, RaftRelease
from nodes.simulation.kafka.playing import play
from nodes.simulation.schedule import Played, ScheduledRun

IDLE_INTERVAL = "metadata.max.idle.interval.ms"
"""The property of a QuorumController that says how often it writes a NoOpRecord; those of node 1 count for all."""
IDLE_INTERVAL_MS = "500"
NOT_OF_RAFT = frozenset({IDLE_INTERVAL, "broker.session.timeout.ms", "broker.heartbeat.interval.ms"})
"""The properties that the Raft client does not get: the one above, and those of brokers, of which there are none."""

_DRIVERS: dict[tuple[tuple[str, ...], bool], RaftDriver] = {}


def simulated_kafka(version: str, spec: SimulationSpec, observe: Observe) -> KafkaCluster:
    """A cluster of this release, except for nodes that run another. The one before it must have been closed.

    Raises BadInput for a release or a specification that cannot be simulated, EnvironmentFailure without its jars or
    without a JDK.
    """
    driver = driver_of(*_releases(version, spec), has_files=has_files(spec))
    return KafkaCluster(driver, _of_raft(spec), observe, _idle_interval_ms(spec))


def play_kafka(version: str, runs: Sequence[ScheduledRun]) -> list[Played]:
    """Carry out schedules on clusters of this release, one after the other. Raises as simulated_kafka does."""
    keyed = [(_key(version, run.spec), _of_raft(run.spec), run) for run in runs]
    return [
        played
        for (releases, in_files, idle_ms), group in groupby(keyed, key=itemgetter(0))
        for played in play(
            driver_of(*releases, has_files=in_files), [replace(run, spec=spec) for _, spec, run in group], idle_ms
        )
    ]


def _key(version: str, spec: SimulationSpec) -> tuple[tuple[str, ...], bool, int]:
    """What runs that follow each other in one driver have in common."""
    return _releases(version, spec), has_files(spec), _idle_interval_ms(spec)


def driver_of(*versions: str, has_files: bool = False) -> RaftDriver:
    """The driver of this process for releases, started on first use. Raises as simulated_kafka does.

    has_files: nodes may have their logs in files.
    """
    key = versions, has_files
    if key not in _DRIVERS:
        releases = [asyncio.run(_release(version, has_files)) for version in versions]
        _DRIVERS[key] = RaftDriver(*releases, has_files=has_files)
        atexit.register(_DRIVERS[key].close)
    return _DRIVERS[key]


async def _release(version: str, has_files: bool) -> RaftRelease:
    library = RaftLibrary.default()
    release = await library.resolve(version)
    return await library.with_server_log(release) if has_files else release


def _releases(version: str, spec: SimulationSpec) -> tuple[str, ...]:
    """The cluster's release first, and those that other nodes run, or that nodes change to."""
    return version, *sorted({*spec.versions.values(), *spec.later_versions} - {version})


def _of_raft(spec: SimulationSpec) -> SimulationSpec:
    of_raft = {
        node: {name: value for name, value in properties.items() if name not in NOT_OF_RAFT}
        for node, properties in spec.switches.items()
    }
    return replace(spec, switches=of_raft)


def _idle_interval_ms(spec: SimulationSpec) -> int:
    return int(spec.switches.get(1, {}).get(IDLE_INTERVAL, IDLE_INTERVAL_MS))
