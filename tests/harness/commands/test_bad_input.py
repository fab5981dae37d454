"""What a user gets wrong: each time one line that names the place and what was expected, exit 254, and no run."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from harness.planning.plan import read_request
from tests.support.command import splitbrain

PLANS = {
    # name: content, then what the one line says beside the file's name
    "an unknown key": ("tmie_limit_seconds = 3", "tmie_limit_seconds: Extra inputs are not permitted"),
    "an unknown key of a step": ('story = [{f = "heal", how = "well"}]', "story.0.how: Extra inputs are not permitted"),
    "a wrong type": ('nodes = "three"', "nodes: Input should be a valid integer"),
    "out of range": ("nodes = 40", "nodes: Input should be less than or equal to 9, came 40"),
    "no time": ("time_limit_seconds = 0", "time_limit_seconds: Input should be greater than 0"),
    "endless": ("time_limit_seconds = inf", "time_limit_seconds: Input should be"),
    "no number": ("rate_per_second = nan", "rate_per_second: Input should be"),
    "a negative seed": ("seed = -1", "seed: Input should be greater than or equal to 0"),
    "an unknown workload": (
        'workload = "banking"',
        "workload: Input should be 'idle', 'kafka-17754', 'kafka-20734'",
    ),
    "an unknown fault": (
        'faults = ["gremlins"]',
        "faults.0: expected packets, partition, ",
    ),
    "a name that is a path": ('name = "../../etc"', "name: String should match pattern"),
    "an unknown deed": ('story = [{f = "dance"}]', "story.0: deed 'dance': expected one of await, hold, heal"),
    "a hold without time": ('story = [{f = "hold"}]', "story.0: hold: Input should be a valid number"),
    "a hold in words": ('story = [{f = "sleep", value = "5"}]', "story.0: hold: Input should be a valid number"),
    "a cut of no shape": ('story = [{f = "cut", value = {}}]', "cut: expected one of the shapes who, only"),
    "a cut of nobody": ('story = [{f = "cut", value = {who = "boss"}}]', "story.0: cut.who: String should match"),
    "a date": ("nodes = 2026-11-21", "nodes: Input should be a valid integer"),
    "no TOML": ("nodes = = 3", "expected TOML: Invalid value (at line 1, column 9)"),
    "binary": (b"\x7fELF\x00\xff", "expected TOML: 'utf-8' codec can't decode byte 0xff"),
}


@pytest.mark.parametrize(("content", "says"), PLANS.values(), ids=PLANS)
def test_a_plan_that_cannot_be_is_told_in_one_line_with_file_and_key(tmp_path, content, says):
    path = tmp_path / "plan.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as raised:
        read_request(path, {})
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert says in message
    assert "\n" not in message
    assert len(message) < 700


def test_flags_win_over_the_plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('nodes = 5\nworkload = "register"\n')
    asked = read_request(path, {"nodes": 3})
    assert (asked.nodes, asked.workload) == (3, "register")


COMMANDS = {
    # name: arguments, then what the one line says
    "a plan with an unknown key": (("run", "--plan", "{plan}"), "{plan}: nodse: Extra inputs are not permitted"),
    "a plan that is not there": (("run", "--plan", "/no/plan.toml"), "/no/plan.toml: expected a plan in TOML, No such"),
    "a plan that is a folder": (("run", "--plan", "/usr"), "/usr: expected a plan in TOML, Is a directory"),
    "a number out of range": (("run", "--nodes", "0"), "flags: nodes: Input should be greater than or equal to 1"),
    "a number in words": (("run", "--nodes", "three"), "Invalid value for '--nodes': Input should be a valid integer"),
    "an unknown fault": (("run", "--faults", "gremlins"), "faults.0: expected packets, partition, "),
    "an unknown flag": (("run", "--gremlins", "3"), "No such option: --gremlins"),
    "an unknown command": (("walk",), "No such command 'walk'"),
    "a switch without a value": (("run", "--switch", "pre_vote"), "--switch 'pre_vote': expected NAME=VALUE"),
    "an unknown switch": (("run", "--switch", "reference.no_such=1"), "reference.no_such"),
    "an unknown switch to reproduce with": (
        ("reproduce", "PV-01", "--switch", "reference.no_such=1"),
        "reference.no_such",
    ),
    "features that the reference has not": (("reproduce", "PV-01", "--feature", "a.version=1"), "features a.version"),
    "a feature's level in words": (("reproduce", "PV-01", "--feature", "a.version=one"), "features.a.version: String"),
    "a switch out of range": (("run", "--switch", "reference.pre_vote=maybe"), "reference.pre_vote"),
    "an unknown system": (("run", "--system", "etcd"), "system 'etcd': expected reference, kafka or kafka:VERSION"),
    "a version of the reference": (("run", "--system", "reference:2"), "expected reference, kafka or kafka:VERSION"),
    "no version": (("run", "--system", "kafka:four"), "Kafka version 'four': expected MAJOR.MINOR.PATCH"),
    "an old version": (("run", "--system", "kafka:2.8.0"), "expected 3.3.0 or later"),
    "an unknown scenario": (("reproduce", "PV-99"), "PV-99"),
    "an unknown side": (("reproduce", "PV-01", "--side", "dark"), "--side 'dark': expected bad, good or both"),
    "a run that is none": (("check", "/usr"), "/usr: expected a run directory"),
    "a report of a run that is none": (("report", "/no/run"), "/no/run: expected a run directory"),
    "an unknown page": (("scenarios", "dance"), "scenarios 'dance': expected list, or show ID"),
}


@pytest.mark.parametrize(("arguments", "says"), COMMANDS.values(), ids=COMMANDS)
def test_the_command_says_it_in_one_line_and_exits_254_without_a_run(tmp_path, store, arguments, says):
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
