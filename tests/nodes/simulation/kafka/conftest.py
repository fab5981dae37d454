"""One JVM for each set of releases for the tests of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.kafka.cluster import has_files
from nodes.simulation.kafka.driver_process import RaftDriver
from tests.support.nodes.simulated_kafka import Story, release, release_with_log

StoryOf = Callable[..., Story]


@pytest.fixture(scope="module")
def drivers() -> Iterator[Callable[..., RaftDriver]]:
    """The driver of versions, started on first use; one that has files has the releases' server logs."""
    running: dict[tuple[tuple[str, ...], bool], RaftDriver] = {}

    def of(*versions: str, has_files: bool = False) -> RaftDriver:
        key = versions, has_files
        if key not in running:
            releases = [release_with_log(each) if has_files else release(each) for each in versions]
            running[key] = RaftDriver(*releases, has_files=has_files)
        return running[key]

    yield of
    for driver in running.values():
        driver.close()


@pytest.fixture
def story(drivers: Callable[..., RaftDriver]) -> Iterator[StoryOf]:
    """A story on a release, or on several, with the fields of its specification."""
    told: list[Story] = []

    def of(version: str = "4.3.1", seed: int = 7, nodes: int = 3, **fields: object) -> Story:
        spec = SimulationSpec(seed, nodes, **fields)  # type: ignore[arg-type]
        driver = drivers(version, *sorted({*spec.versions.values(), *spec.later_versions}), has_files=has_files(spec))
        told.append(Story(driver, spec))
        return told[-1]

    yield of
    for each in told:
        each.cluster.close()
