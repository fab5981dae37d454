"""Bad input is reported in one line that names the place and what was expected; exit 254, and no run is created."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from harness.planning.plan import read_request
from tests.support.command import splitbrain_here

PLANS = {
    # case: content of the plan file, part of the message
    "an unknown key": ("tmie_limit = 3", "tmie_limit: expected one of the keys at_once, bursts, concurrency,"),
    "an unknown key of a step": (
        'story = [{f = "heal", how = "well"}]',
        "story.0.how: expected one of the keys f",
    ),
    "a name of nodes that was not chosen": (
        'story = [{f = "kill", value = {who = "$victim"}}]',
        "story: 0: kill.who: expected a name that an earlier step has chosen, found $victim",
    ),
    "a wrong type": ('nodes = "three"', "nodes: expected a whole number, found 'three'"),
    "out of range": ("nodes = 40", "nodes: expected 9 or less, found 40"),
    "a release of a node that does not exist": (
        "nodes = 3\n[node_systems]\n4 = 'kafka'",
        "node_systems: expected nodes up to 3, found 4",
    ),
    "a node to start later that does not exist": (
        "nodes = 3\nnot_started = [4]",
        "not_started: expected nodes up to 3, found 4",
    ),
    "an unknown system of a node": ("[node_systems]\n1 = 'cassandra'", "node_systems.1: expected kafka, reference, "),
    "a property of a node that does not exist": (
        "[node_switches]\n4 = {a = 'b'}",
        "node_switches: expected nodes up to 3, found 4",
    ),
    "a zero time limit": ("time_limit = 0", "time_limit: expected more than 0, found 0"),
    "an infinite time limit": ("time_limit = inf", "time_limit: expected a finite number, found inf"),
    "not a number": ("rate = nan", "rate: expected a finite number, found nan"),
    "a negative seed": ("seed = -1", "seed: expected 0 or more, found -1"),
    "an unknown workload": (
        'workload = "banking"',
        "workload: expected one of idle, kafka-17754, kafka-20734",
    ),
    "an unknown fault": (
        'faults = ["gremlins"]',
        "faults.0: expected one of change, clock, ",
    ),
    "a path as name": ('name = "../../etc"', "name: expected a name of up to 61 letters, digits,"),
    "an unknown step": ('story = [{f = "dance"}]', "story.0: step 'dance': expected one of await, choose, sleep, heal"),
    "a sleep without a duration": ('story = [{f = "sleep"}]', "story.0: sleep: expected a number, found nothing"),
    "a sleep with a string": ('story = [{f = "sleep", value = "5"}]', "story.0: sleep: expected a number, found '5'"),
    "an unknown condition": (
        'story = [{f = "await", value = {condition = "it rains", within_seconds = 5}}]',
        "story.0: await.condition: expected a table of keys and values, found 'it rains'",
    ),
    "a condition without its node": (
        'story = [{f = "await", value = {condition = {name = "all_follow"}, within_seconds = 5}}]',
        "condition all_follow: expected a node",
    ),
    "a condition with an offset that it does not have": (
        'story = [{f = "await", value = {condition = {name = "is_leader", node = 1, offset = 5}, within_seconds = 5}}]',
        "condition is_leader: expected no offset",
    ),
    "a cut without a shape": ('story = [{f = "cut", value = {}}]', "cut: expected one of the shapes who, only"),
    "a cut of an unknown role": (
        'story = [{f = "cut", value = {who = "boss"}}]',
        "story.0: cut.who: expected one of the roles leader, ",
    ),
    "a date": ("nodes = 2026-11-21", "nodes: expected a whole number, found 2026-11-21"),
    "invalid TOML": ("nodes = = 3", "line 1, column 9: expected a plan in TOML: Invalid value"),
    "a binary file": (b"\x7fELF\x00\xff", "expected a plan in TOML as UTF-8 text, found byte 0xff at position 5"),
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


def test_faults_of_the_command_line_replace_those_of_a_plan_with_their_weights(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('faults = ["kill", "pause"]\nweight = { kill = 2, pause = 3 }\n')
    request = read_request(path, {"faults": ["kill"]})
    assert (request.faults, request.weights) == (["kill"], {"kill": 2})


def test_flags_override_the_plan_file(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('nodes = 5\nworkload = "register"\n')
    request = read_request(path, {"nodes": 3})
    assert (request.nodes, request.workload) == (3, "register")


COMMANDS = {
    # case: arguments, part of the message
    "a negative time limit": (("run", "--time-limit", "-5"), "--time-limit: expected more than 0, found -5"),
    "a flag besides a plan": (("run", "--plan", "{sound}", "--nodes", "0"), "--nodes: expected 1 or more, found 0"),
    "faults besides none": (("run", "--faults", "none,kill"), "--faults: expected none alone, or faults without none"),
    "a weight of an absent fault": (("run", "--weight", "pause=2"), "--weight: expected faults among partition, found"),
    "a weight without faults": (("run", "--faults", "none", "--weight", "kill=2"), "--weight: expected no weights"),
    "a missing inventory": (
        ("run", "--hosts", "ssh", "--inventory", "/no/a.toml"),
        "/no/a.toml: expected an inventory",
    ),
    "a missing inventory of other hosts": (("run", "--inventory", "/no/a.toml"), "/no/a.toml: expected an inventory"),
    "trials on machines without an inventory": (
        ("faults", "test", "--hosts", "ssh"),
        "--hosts ssh: expected --inventory",
    ),
    "an empty version": (("run", "--system", "kafka:"), "--system: expected a name before the colon and a version"),
    "an endless plan": (("run", "--plan", "/dev/zero"), "/dev/zero: expected a plan in TOML, found a device"),
    "a switch without its prefix": (("run", "--switch", "pre_vote=false"), "; did you mean reference.pre_vote?"),
    "a near workload": (("run", "--workload", "regster"), "; did you mean register?"),
    "a near fault": (("run", "--faults", "partitoin"), "; did you mean partition?"),
    "a near switch": (("run", "--switch", "reference.pre_voet=true"), "; did you mean pre_vote?"),
    "a near scenario": (("reproduce", "PV01"), "; did you mean PV-01?"),
    "a near system": (("run", "--system", "kafkaa"), "; did you mean kafka?"),
    "a near system with a version": (("run", "--system", "kafkaa:4.3.1"), "; did you mean kafka?"),
    "a near flag": (("run", "--time-limt", "3"), "--time-limt: expected an option of run; did you mean --time-limit?"),
    "a near command": (("reproduse", "PV-01"), "; did you mean reproduce?"),
    "a flag without its value": (("run", "--nodes"), "--nodes: expected a value, found none"),
    "a value for a switch of check": (
        ("check", "x", "--skip-malformed=1"),
        "--skip-malformed: expected no value",
    ),
    "a value for a flag without one": (("reproduce", "PV-01", "--full=yes"), "--full: expected no value"),
    "an exploration without time": (("explore", "--time-limit", "0"), "--time-limit: expected more than 0, found 0"),
    "an exploration of an unknown system": (("explore", "--system", "kafkaa"), "; did you mean kafka?"),
    "a missing argument": (("reproduce",), "reproduce: expected ID…, found nothing"),
    "a surplus argument": (("runs", "more"), "runs: expected no further argument, found more"),
    "another choice": (("runs", "--format", "xml"), "--format: expected text or json, found 'xml'"),
    "a limit of nothing": (("runs", "--limit", "0"), "--limit: expected a whole number, 1 or more"),
    "a store that is a file": (
        ("run", "--store", "/dev/null"),
        "/dev/null: expected a folder in which runs can",
    ),
    "a path that is too long": (("report", "x" * 3000), "expected a path that can exist: file name too long"),
    "a plan with an unknown key": (("run", "--plan", "{plan}"), "{plan}: nodse: expected one of the keys at_once,"),
    "a missing plan": (
        ("run", "--plan", "/no/plan.toml"),
        "/no/plan.toml: expected a plan in TOML, found no such",
    ),
    "a plan that is a folder": (("run", "--plan", "/usr"), "/usr: expected a plan in TOML, found a folder"),
    "a number out of range": (("run", "--nodes", "0"), "--nodes: expected 1 or more, found 0"),
    "a word as number": (("run", "--nodes", "three"), "--nodes: expected a whole number, found 'three'"),
    "an unknown fault": (("run", "--faults", "gremlins"), "--faults: expected one of change, clock, "),
    "an unknown flag": (("run", "--gremlins", "3"), "--gremlins: expected an option of run"),
    "an unknown command": (("walk",), "walk: expected one of scenarios, reproduce, run"),
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
    "a word as feature level": (
        ("reproduce", "PV-01", "--feature", "a.version=one"),
        "--feature a.version: expected a level",
    ),
    "a switch out of range": (("run", "--switch", "reference.pre_vote=maybe"), "reference.pre_vote"),
    "an unknown system": (
        ("run", "--system", "zookeeper"),
        "--system: expected kafka, reference, ",
    ),
    "a system in a missing module": (("run", "--system", "no_such:KAFKA"), "there is no no_such"),
    "a missing system in a module": (("run", "--system", "json:KAFKA"), "has no attribute 'KAFKA'"),
    "a value that is not a system": (("run", "--system", "json:dumps"), "expected a SystemKind, found function"),
    "a fault that the system does not support": (
        ("run", "--faults", "membership"),
        "--faults membership: only a cluster with brokers has partitions, topics and sessions; use --layout combined",
    ),
    "machines without an inventory": (("run", "--hosts", "ssh"), "--hosts ssh: expected --inventory, a TOML file"),
    "a version of the reference system": (("run", "--system", "reference:2"), "the reference system has no versions"),
    "an invalid version": (("run", "--system", "kafka:four"), "Kafka version 'four': expected MAJOR.MINOR.PATCH"),
    "an old version": (("run", "--system", "kafka:2.8.0"), "expected 3.3.0 or later"),
    "an unknown scenario": (("reproduce", "PV-99"), "PV-99"),
    "an unknown side": (
        ("reproduce", "PV-01", "--side", "dark"),
        "--side: expected one of bad, good, both, found",
    ),
    "a folder that is not a run": (("check", "/usr"), "/usr: expected a run directory"),
    "a report of a missing run": (("report", "/no/run"), "/no/run: expected a run directory"),
    "an unknown argument of scenarios": (("scenarios", "dance"), "scenarios 'dance': expected list, or show ID"),
}


@pytest.mark.parametrize(("arguments", "problem"), COMMANDS.values(), ids=COMMANDS)
def test_bad_input_is_one_line_and_exit_254_without_a_run(tmp_path, store, monkeypatch, arguments, problem):
    monkeypatch.setenv("SPLITBRAIN_STORE", str(store))
    plan = tmp_path / "plan.toml"
    plan.write_text("nodse = 3\n")
    sound = tmp_path / "sound.toml"
    sound.write_text("nodes = 5\n")
    filled = [argument.format(plan=plan, sound=sound) for argument in arguments]
    result = splitbrain_here(*filled)
    assert result.code == 254
    (line,) = result.messages
    assert line.startswith("splitbrain: ")
    assert problem.format(plan=plan) in line
    assert result.out == ""
    assert not store.exists()
