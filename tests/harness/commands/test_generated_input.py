"""Whatever is typed or read, a command ends with 254 and one line, and nothing is half-written.

`make test` tries a sample of the generated cases; `make test-all` tries 10,000 in process and 200 real commands.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from harness.histories.exporting import export_lines
from harness.judging.inputs import inputs_of_run
from harness.judging.listing import RunFilter, listed
from harness.model import EnvironmentFailure
from harness.planning.options import flag_of, form_of
from harness.planning.plan import Plan, ReproductionRequest, Request, read_request
from harness.recovery.heal import heal_before_a_run, heal_store
from nodes.hosts.ssh.inventory import Inventory
from results.store import RunDirectory
from tests.support.bad_input import (
    FILES,
    JSON_VALUES,
    PLANS,
    TOML_VALUES,
    WORDS,
    answer_to,
    assert_is_one_clear_line,
    assert_is_read_or_refused,
    command_lines,
)
from tests.support.command import splitbrain

QUICK, THOROUGH = 60, 2000
REAL_COMMANDS = 200
HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]

RUN_FILES = ("status.json", "plan.json", "verdict.json", "system.json", "journal.jsonl", "owner.json", "sandbox.json")
STATUS = {"kind": "run", "status": "running", "times": {"created": "2026-11-21T05:17:00+00:00"}}
HOST_KEYS = st.sampled_from(["name", "address", "user", "key", "port", "host_key", "sudo", "node_address", "nmae"])
INVENTORIES = st.builds(
    lambda hosts, rest: {"hosts": hosts, **rest},
    st.lists(st.dictionaries(HOST_KEYS, TOML_VALUES, max_size=3), max_size=2) | TOML_VALUES,
    st.dictionaries(st.sampled_from(["defaults", "host"]), TOML_VALUES, max_size=1),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("generated")


def toml(value: dict[str, Any]) -> bytes:
    return tomli_w.dumps(value).encode("utf-8", "replace")


def command_ends_well(folder: Path, argv: list[str]) -> None:
    answer = answer_to([*argv, "--store", str(folder)] if argv[0] in ("run", "reproduce") else argv)
    assert answer.code in (0, 254), answer
    if answer.code:
        assert_is_one_clear_line(answer.messages)
    assert not list(folder.iterdir())


def plan_is_read_or_refused(folder: Path, content: bytes) -> None:
    path = folder / "plan.toml"
    path.write_bytes(content)
    assert_is_read_or_refused(lambda: read_request(path, {}))
    path.unlink()


def inventory_is_read_or_refused(folder: Path, content: bytes) -> None:
    path = folder / "machines.toml"
    path.write_bytes(content)
    assert_is_read_or_refused(lambda: Inventory.read(path))
    path.unlink()


def damaged_run_blocks_nothing(folder: Path, damage: tuple[str, bytes]) -> None:
    name, content = damage
    run = RunDirectory(folder / "20261121T051700Z-run-ab12")
    run.path.mkdir()
    run.status_file.write_text(json.dumps(STATUS))
    run.plan.write_text(Plan(name="run", seed=1, story=[]).as_json())
    (run.path / name).write_bytes(content)
    (row,) = listed(folder, RunFilter())
    assert row.damage.isprintable()
    list(heal_before_a_run(folder))
    try:
        list(heal_store(folder))
    except EnvironmentFailure as error:
        assert_is_one_clear_line(str(error))
    assert_is_read_or_refused(lambda: Plan.read(run.plan))
    assert_is_read_or_refused(lambda: inputs_of_run(run, Plan.read(run.plan)))
    assert_is_read_or_refused(lambda: list(export_lines(run.path, True, False)))
    for path in sorted(run.path.iterdir()):
        path.unlink()
    run.path.rmdir()


CONTENTS = FILES | st.builds(lambda value: json.dumps(value).encode(), JSON_VALUES)
DAMAGED = st.tuples(st.sampled_from(RUN_FILES), CONTENTS | st.builds(lambda content: content + b"\n", CONTENTS))
KINDS: dict[str, tuple[Callable[[Path, Any], None], st.SearchStrategy[Any]]] = {
    "command lines": (command_ends_well, command_lines()),
    "plans by key": (plan_is_read_or_refused, st.builds(toml, PLANS)),
    "plans by bytes": (plan_is_read_or_refused, FILES),
    "inventories": (inventory_is_read_or_refused, st.builds(toml, INVENTORIES) | FILES),
    "files of a run": (damaged_run_blocks_nothing, DAMAGED),
}


def attempt(kind: str, folder: Path, cases: int) -> None:
    """Try generated cases of a kind, each in an empty folder."""
    assert_holds, strategy = KINDS[kind]

    @settings(max_examples=cases, deadline=None, suppress_health_check=HEALTH, database=None)
    @given(case=strategy)
    def every(case: Any) -> None:
        assert_holds(folder, case)

    every()


@pytest.mark.parametrize("word", sorted(set(WORDS) - {"", "--"}))
@pytest.mark.parametrize("command", [("kafka", "install"), ("doctor",)], ids="-".join)
def test_word_that_is_no_release_or_no_argument_is_refused_in_one_line(command: tuple[str, ...], word: str) -> None:
    answer = answer_to([*command, word])
    assert answer.code == 254, answer
    assert_is_one_clear_line(answer.messages)


@pytest.mark.parametrize("kind", KINDS)
def test_sample_of_generated_input_is_accepted_or_refused_in_one_line(folder: Path, kind: str) -> None:
    attempt(kind, folder, QUICK)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_10_000_generated_inputs_are_accepted_or_refused_in_one_line(folder: Path, kind: str) -> None:
    attempt(kind, folder, THOROUGH)


def wrong_values(field: FieldInfo) -> tuple[str, ...]:
    """Values that no flag of this form can have."""
    if form_of(field) == "pairs":
        return ("novalue", "=", "=3", "")
    if form_of(field) == "list":
        return ("gremlins", "", "kill,", "none,kill", "KILL")
    if {int, float} & {field.annotation, *getattr(field.annotation, "__args__", ())}:
        return ("three", "-1", "nan", "1e999", "", "0x3", "9" * 5000, "1.5.2")
    return ("no such word", "\x1b[31m", "a\nb", "x" * 3000)


def wrong_commands() -> Iterator[list[str]]:
    """Every flag of a request with every wrong value, and every other way to get a command line wrong."""
    for words, model in ((["run"], Request), (["reproduce", "PV-01"], ReproductionRequest)):
        for name, field in model.model_fields.items():
            if name not in ("story", "inventory"):
                yield from ([*words, flag_of(name, field), value] for value in wrong_values(field))
        yield from ([*words, "--inventory", path] for path in ("/no/file", "/dev/zero", "/usr", "/etc/passwd", ""))
    yield from (["run", "--plan", path] for path in ("/no/file", "/dev/zero", "/usr", "/etc/passwd", "plan.toml"))
    for command in ("check", "export", "report"):
        yield from ([command, path] for path in ("/no/run", "/usr", "/dev/null", "x" * 3000, "\x1b"))
        yield [command]
    for command in ("heal", "runs"):
        yield from ([command, "--store", path] for path in ("/no/store", "/dev/null", "/etc/passwd", "x" * 3000))
        yield from ([command, "surplus"], [command, "--format", "xml"], [command, "--stroe", "."])
    yield from ([["runs", "--limit", "0"], ["runs", "--limit", "x"], ["scenarios", "show", "PV01"], ["reproduse"]])
    yield from ([["faults", "tset"], ["faults", "test", "--hosts", "ssh"], ["faults", "show", "kil"], ["kafka", "x"]])
    yield from ([["run", "--store", path] for path in ("/dev/null", "/proc/x", "/sys/x", "/etc/passwd/x")])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_200_real_commands_with_wrong_input_exit_254_with_one_line_and_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    possible = list(wrong_commands())
    for argv in random.Random(11).sample(possible, REAL_COMMANDS):
        result = splitbrain(*argv)
        assert result.code == 254, (argv, result)
        assert_is_one_clear_line("\n".join(result.messages))
        assert result.out == "", argv
        assert not list(tmp_path.iterdir()), argv
