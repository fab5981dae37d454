"""Bad input: one line that names the place and what was expected, exit 254, and no run."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from harness.planning.plan import read_request
from tests.support.command import splitbrain

PLANS = {
    # case: content, then a part of the message besides the file's name
    "an unknown key": ("tmie_limit = 3", "tmie_limit: Extra inputs are not permitted"),
    "an unknown key of a step": ('story = [{f = "heal", how = "well"}]', "story.0.how: Extra inputs are not permitted"),
    "a wrong type": ('nodes = "three"', "nodes: Input should be a valid integer"),
    "out of range": ("nodes = 40", "nodes: Input should be less than or equal to 9, found 40"),
    "no time": ("time_limit = 0", "time_limit: Input should be greater than 0"),
    "endless": ("time_limit = inf", "time_limit: Input should be"),
    "no number": ("rate = nan", "rate: Input should be"),
    "a negative seed": ("seed = -1", "seed: Input should be greater than or equal to 0"),
    "an unknown workload": (
        'workload = "banking"',
        "workload: expected one of idle, kafka-17754, kafka-20734",
    ),
    "an unknown fault": (
        'faults = ["gremlins"]',
        "faults.0: expected change, clock, ",
    ),
    "a name that is a path": ('name = "../../etc"', "name: String should match pattern"),
    "an unknown step": ('story = [{f = "dance"}]', "story.0: step 'dance': expected one of await, sleep, heal"),
    "a sleep without time": ('story = [{f = "sleep"}]', "story.0: sleep: Input should be a valid number"),
    "a sleep in words": ('story = [{f = "sleep", value = "5"}]', "story.0: sleep: Input should be a valid number"),
    "an unknown condition": (
        'story = [{f = "await", value = {condition = "it rains", within_seconds = 5}}]',
        "story.0: await.condition: Input should be an object",
    ),
    "a condition without its node": (
        'story = [{f = "await", value = {condition = {name = "all_follow"}, within_seconds = 5}}]',
        "condition all_follow: expected a node",
    ),
    "a cut of no shape": ('story = [{f = "cut", value = {}}]', "cut: expected one of the shapes who, only"),
    "a cut of nobody": ('story = [{f = "cut", value = {who = "boss"}}]', "story.0: cut.who: String should match"),
    "a date": ("nodes = 2026-11-21", "nodes: Input should be a valid integer"),
    "no TOML": ("nodes = = 3", "expected TOML: Invalid value (at line 1, column 9)"),
    "binary": (b"\x7fELF\x00\xff", "expected TOML: 'utf-8' codec can't decode byte 0xff"),
}


@pytest.mark.parametrize(("content", "says"), PLANS.values(), ids=PLANS)
def test_a_bad_plan_file_is_one_line_with_file_and_key(tmp_path, content, says):
    path = tmp_path / "plan.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as raised:
        read_request(path, {})
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert says in message
    assert "\n" not in message
    assert len(message) < 700


def test_flags_override_the_plan_file(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('nodes = 5\nworkload = "register"\n')
    request = read_request(path, {"nodes": 3})
    assert (request.nodes, request.workload) == (3, "register")


COMMANDS = {
    # case: arguments, then a part of the message
    "a plan with an unknown key": (("run", "--plan", "{plan}"), "{plan}: nodse: Extra inputs are not permitted"),
    "a plan that is not there": (("run", "--plan", "/no/plan.toml"), "/no/plan.toml: expected a plan in TOML, No such"),
    "a plan that is a folder": (("run", "--plan", "/usr"), "/usr: expected a plan in TOML, Is a directory"),
    "a number out of range": (("run", "--nodes", "0"), "--nodes: Input should be greater than or equal to 1"),
    "a number in words": (("run", "--nodes", "three"), "Invalid value for '--nodes': Input should be a valid integer"),
    "an unknown fault": (("run", "--faults", "gremlins"), "--faults.0: expected change, clock, "),
    "an unknown flag": (("run", "--gremlins", "3"), "No such option: --gremlins"),
    "an unknown command": (("walk",), "No such command 'walk'"),
    "a switch without a value": (("run", "--switch", "pre_vote"), "--switch: expected NAME=VALUE, found 'pre_vote'"),
    "an unknown switch": (("run", "--switch", "reference.no_such=1"), "reference.no_such"),
    "an unknown switch to reproduce with": (
        ("reproduce", "PV-01", "--switch", "reference.no_such=1"),
        "reference.no_such",
    ),
    "features of the reference": (("reproduce", "PV-01", "--feature", "a.version=1"), "--feature a.version: not supp"),
    "a feature's level in words": (("reproduce", "PV-01", "--feature", "a.version=one"), "--feature.a.version: String"),
    "a switch out of range": (("run", "--switch", "reference.pre_vote=maybe"), "reference.pre_vote"),
    "an unknown system": (
        ("run", "--system", "zookeeper"),
        "system 'zookeeper': expected kafka, reference, ",
    ),
    "a system in a module that is missing": (("run", "--system", "no_such:KAFKA"), "there is no no_such"),
    "a module without that system": (("run", "--system", "json:KAFKA"), "has no attribute 'KAFKA'"),
    "a module's value that is no system": (("run", "--system", "json:dumps"), "expected a SystemKind, found function"),
    "a fault that the system cannot have": (
        ("run", "--faults", "membership"),
        "--faults membership: the reference quorum has no brokers",
    ),
    "a version of the reference": (("run", "--system", "reference:2"), "the reference system has no versions"),
    "no version": (("run", "--system", "kafka:four"), "Kafka version 'four': expected MAJOR.MINOR.PATCH"),
    "an old version": (("run", "--system", "kafka:2.8.0"), "expected 3.3.0 or later"),
    "an unknown scenario": (("reproduce", "PV-99"), "PV-99"),
    "an unknown side": (("reproduce", "PV-01", "--side", "dark"), "--side: Input should be 'bad', 'good' or 'both'"),
    "a run that is none": (("check", "/usr"), "/usr: expected a run directory"),
    "a report of a run that is none": (("report", "/no/run"), "/no/run: expected a run directory"),
    "an unknown page": (("scenarios", "dance"), "scenarios 'dance': expected list, or show ID"),
}


@pytest.mark.parametrize(("arguments", "says"), COMMANDS.values(), ids=COMMANDS)
def test_bad_input_is_one_line_and_exit_254_without_a_run(tmp_path, store, arguments, says):
    plan = tmp_path / "plan.toml"
    plan.write_text("nodse = 3\n")
    filled = [argument.format(plan=plan) for argument in arguments]
    said = splitbrain(*filled, SPLITBRAIN_STORE=str(store))
    assert said.code == 254
    (line,) = said.messages
    assert line.startswith("splitbrain: ")
    assert says.format(plan=plan) in line
    assert said.out == ""
    assert not store.exists()
