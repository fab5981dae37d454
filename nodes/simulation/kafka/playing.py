"""Carries out whole schedules in the JVM: one exchange for many runs.

    [played, …] = play(driver, [ScheduledRun(spec, schedule), …])

It is the same run as that of nodes.simulation.schedule.Player on a KafkaCluster, to the digest, without observations.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.kafka.cluster import changed_node, directory_id_of, request_arguments, specified, status_of
from nodes.simulation.kafka.driver_process import RaftDriver
from nodes.simulation.schedule import (
    CHANGE_VERSION,
    INTERCEPT,
    READ,
    REQUEST,
    WRITE,
    Played,
    ScheduledRun,
    Timed,
    voter_request,
    why_unrecovered,
)


def play(driver: RaftDriver, runs: Sequence[ScheduledRun], idle_interval_ms: int = 0) -> list[Played]:
    """Carry the schedules out, one after the other; the cluster that the driver served before is closed.

    Raises BadInput for a specification that the release cannot have.
    """
    driver.end_cluster()
    driver.end_cluster = lambda: None
    encoded = [
        (
            {**specified(driver, run.spec), "idle": idle_interval_ms},
            [_command(driver, run.spec, each) for each in run.schedule.commands],
            run.schedule.end_ms,
        )
        for run in runs
    ]
    return [_played(result) for result in driver.exchange([["play", encoded]])["result"]]


@functools.cache
def _voter_arguments(api_key: int, voter: int) -> Sequence[Any]:
    return request_arguments(voter_request(api_key, voter, directory_id_of(voter)))


def _command(driver: RaftDriver, spec: SimulationSpec, timed: Timed) -> Sequence[Any]:
    """The command as driver/Player.java reads it."""
    argument = timed.argument
    if timed.name == INTERCEPT:
        argument = [_rule(each) for each in argument]
    elif timed.name == CHANGE_VERSION:
        argument = changed_node(driver, spec, int(timed.who.removeprefix("n")), {}, argument)
    elif timed.name == REQUEST:
        argument = _voter_arguments(*argument)
    elif timed.name in (WRITE, READ):
        argument = None  # the driver numbers writes, and does not look into them
    return (timed.at_ms, timed.name, timed.who, argument)


def _rule(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": rule["name"], **rule["match"], **rule["action"]}


def _played(result: Mapping[str, Any]) -> Played:
    rows = result.get("unrecovered")
    statuses = None if rows is None else {int(node): status_of(*row) for node, row in rows.items() if row is not None}
    return Played(
        broken=[(invariant, message) for invariant, message in result["broken"]],
        exits=result["exits"],
        unrecovered=None if statuses is None else why_unrecovered(statuses),
        calls=result["calls"],
        answers=result["answers"],
        now_ms=result["now"],
        digest=result["digest"],
    )
