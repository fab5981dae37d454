"""Bad input is reported in one line that names the place and what was expected; exit 254, and no run is created."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from harness.planning.plan import read_request
from tests.support.command import splitbrain

PLANS = {
    # case: content of the plan file, part of the message
    "an unknown key": ("tmie_limit = 3", "tmie_limit: Extra inputs are not permitted"),
    "an unknown key of a step": ('story = [{f = "heal", how = "well"}]', "story.0.how: Extra inputs are not permitted"),
    "a wrong type": ('nodes = "three"', "nodes: Input should be a valid integer"),
    "out of range": ("nodes = 40", "nodes: Input should be less than or equal to 9, found 40"),
    "a zero time limit": ("time_limit = 0", "time_limit: Input should be greater than 0"),
    "an infinite time limit": ("time_limit = inf", "time_limit: Input should be"),
    "not a number": ("rate = nan", "rate: Input should be"),
    "a negative seed": ("seed = -1", "seed: Input should be greater than or equal to 0"),
    "an unknown workload": (
        'workload = "banking"',
        "workload: expected one of idle, kafka-17754, kafka-20734",
    ),
    "an unknown fault": (
        'faults = ["gremlins"]',
        "faults.0: expected one of change, clock, ",
    ),
    "a path as name": ('name = "../../etc"', "name: String should match pattern"),
    "an unknown step": ('story = [{f = "dance"}]', "story.0: step 'dance': expected one of await, sleep, heal"),
    "a sleep without a duration": ('story = [{f = "sleep"}]', "story.0: sleep: Input should be a valid number"),
    "a sleep with a string": ('story = [{f = "sleep", value = "5"}]', "story.0: sleep: Input should be a valid number"),
    "an unknown condition": (
        'story = [{f = "await", value = {condition = "it rains", within_seconds = 5}}]',
        "story.0: await.condition: Input should be an object",
    ),
    "a condition without its node": (
        'story = [{f = "await", value = {condition = {name = "all_follow"}, within_seconds = 5}}]',
        "condition all_follow: expected a node",
    ),
    "a cut without a shape": ('story = [{f = "cut", value = {}}]', "cut: expected one of the shapes who, only"),
    "a cut of an unknown role": (
        'story = [{f = "cut", value = {who = "boss"}}]',
        "story.0: cut.who: String should match",
    ),
    "a date": ("nodes = 2026-11-21", "nodes: Input should be a valid integer"),
    "invalid TOML": ("nodes = = 3", "expected TOML: Invalid value (at line 1, column 9)"),
    "a binary file": (b"\x7fELF\x00\xff", "expected TOML: 'utf-8' codec can't decode byte 0xff"),
}


@pytest.mark.parametrize(("content", "problem"), PLANS.values(), ids=PLANS)
def test_invalid_plan_file_is_reported_in_one_line_with_file_and_key(tmp_path, content, problem):
    path = tmp_path / "plan.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as raised:
        read_request(path, {})
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert problem in message
    assert "\n" not in message
    assert len(message) < 700


def test_flags_override_the_plan_file(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('nodes = 5\nworkload = "register"\n')
    request = read_request(path, {"nodes": 3})
    assert (request.nodes, request.workload) == (3, "register")


COMMANDS = {
    # case: arguments, part of the message
    "a plan with an unknown key": (("run", "--plan", "{plan}"), "{plan}: nodse: Extra inputs are not permitted"),
    "a missing plan": (("run", "--plan", "/no/plan.toml"), "/no/plan.toml: expected a plan in TOML, No such"),
    "a plan that is a folder": (("run", "--plan", "/usr"), "/usr: expected a plan in TOML, Is a directory"),
    "a number out of range": (("run", "--nodes", "0"), "--nodes: Input should be greater than or equal to 1"),
    "a word as number": (("run", "--nodes", "three"), "Invalid value for '--nodes': Input should be a valid integer"),
    "an unknown fault": (("run", "--faults", "gremlins"), "--faults.0: expected one of change, clock, "),
    "an unknown flag": (("run", "--gremlins", "3"), "No such option: --gremlins"),
    "an unknown command": (("walk",), "No such command 'walk'"),
    "a switch without a value": (("run", "--switch", "pre_vote"), "--switch: expected NAME=VALUE, found 'pre_vote'"),
    "an unknown switch": (("run", "--switch", "reference.no_such=1"), "reference.no_such"),
    "an unknown switch of reproduce": (
        ("reproduce", "PV-01", "--switch", "reference.no_such=1"),
        "reference.no_such",
    ),
    "a feature of the reference system": (
        ("reproduce", "PV-01", "--feature", "a.version=1"),
        "--feature a.version: not supp",
    ),
    "a word as feature level": (("reproduce", "PV-01", "--feature", "a.version=one"), "--feature.a.version: String"),
    "a switch out of range": (("run", "--switch", "reference.pre_vote=maybe"), "reference.pre_vote"),
    "an unknown system": (
        ("run", "--system", "zookeeper"),
        "system 'zookeeper': expected kafka, reference, ",
    ),
    "a system in a missing module": (("run", "--system", "no_such:KAFKA"), "there is no no_such"),
    "a missing system in a module": (("run", "--system", "json:KAFKA"), "has no attribute 'KAFKA'"),
    "a value that is not a system": (("run", "--system", "json:dumps"), "expected a SystemKind, found function"),
    "a fault that the system does not support": (
        ("run", "--faults", "membership"),
        "--faults membership: the reference quorum has no brokers",
    ),
    "machines without an inventory": (("run", "--hosts", "ssh"), "--hosts ssh: expected --inventory, a TOML file"),
    "a version of the reference system": (("run", "--system", "reference:2"), "the reference system has no versions"),
    "an invalid version": (("run", "--system", "kafka:four"), "Kafka version 'four': expected MAJOR.MINOR.PATCH"),
    "an old version": (("run", "--system", "kafka:2.8.0"), "expected 3.3.0 or later"),
    "an unknown scenario": (("reproduce", "PV-99"), "PV-99"),
    "an unknown side": (("reproduce", "PV-01", "--side", "dark"), "--side: Input should be 'bad', 'good' or 'both'"),
    "a folder that is not a run": (("check", "/usr"), "/usr: expected a run directory"),
    "a report of a missing run": (("report", "/no/run"), "/no/run: expected a run directory"),
    "an unknown argument of scenarios": (("scenarios", "dance"), "scenarios 'dance': expected list, or show ID"),
}


@pytest.mark.parametrize(("arguments", "problem"), COMMANDS.values(), ids=COMMANDS)
def test_bad_input_is_one_line_and_exit_254_without_a_run(tmp_path, store, arguments, problem):
    plan = tmp_path / "plan.toml"
    plan.write_text("nodse = 3\n")
    filled = [argument.format(plan=plan) for argument in arguments]
    result = splitbrain(*filled, SPLITBRAIN_STORE=str(store))
    assert result.code == 254
    (line,) = result.messages
    assert line.startswith("splitbrain: ")
    assert problem.format(plan=plan) in line
    assert result.out == ""
    assert not store.exists()
