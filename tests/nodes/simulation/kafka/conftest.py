"""One JVM per release for the tests of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.kafka.driver_process import RaftDriver
from tests.support.nodes.simulated_kafka import Story, release

StoryOf = Callable[..., Story]


@pytest.fixture(scope="module")
def drivers() -> Iterator[Callable[[str], RaftDriver]]:
    """The driver of a version, started on first use."""
    running: dict[str, RaftDriver] = {}

    def of(version: str) -> RaftDriver:
        if version not in running:
            running[version] = RaftDriver(release(version))
        return running[version]

    yield of
    for driver in running.values():
        driver.close()


@pytest.fixture
def story(drivers: Callable[[str], RaftDriver]) -> Iterator[StoryOf]:
    """A story on a release, with the fields of its specification."""
    told: list[Story] = []

    def of(version: str = "4.3.1", seed: int = 7, nodes: int = 3, **fields: object) -> Story:
        told.append(Story(drivers(version), SimulationSpec(seed, nodes, **fields)))  # type: ignore[arg-type]
        return told[-1]

    yield of
    for each in told:
        each.cluster.close()
