"""One JVM for each set of releases for the tests of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.kafka.driver_process import RaftDriver
from tests.support.nodes.simulated_kafka import Story, release

StoryOf = Callable[..., Story]


@pytest.fixture(scope="module")
def drivers() -> Iterator[Callable[..., RaftDriver]]:
    """The driver of versions, started on first use."""
    running: dict[tuple[str, ...], RaftDriver] = {}

    def of(*versions: str) -> RaftDriver:
        if versions not in running:
            running[versions] = RaftDriver(*map(release, versions))
        return running[versions]

    yield of
    for driver in running.values():
        driver.close()


@pytest.fixture
def story(drivers: Callable[..., RaftDriver]) -> Iterator[StoryOf]:
    """A story on a release, or on several, with the fields of its specification."""
    told: list[Story] = []

    def of(version: str = "4.3.1", seed: int = 7, nodes: int = 3, **fields: object) -> Story:
        spec = SimulationSpec(seed, nodes, **fields)  # type: ignore[arg-type]
        told.append(Story(drivers(version, *sorted(set(spec.versions.values()))), spec))
        return told[-1]

    yield of
    for each in told:
        each.cluster.close()
