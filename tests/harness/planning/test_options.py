"""Flags, plan files and the command that repeats a run all come from one table: the request models."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import pytest
import tomli_w
import typer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from harness import plugins
from harness.exploration.request import ExplorationRequest
from harness.model import BadInput
from harness.model.conditions import LEADER_KNOWN
from harness.model.story import cut, sleep, wait_until
from harness.planning.options import argv_of, takes
from harness.planning.plan import PLAN_FILE_ONLY, ReproductionRequest, Request, checked, read_request
from harness.planning.story_steps import StoryStep
from harness.running.run import command_of
from results.store import RunDirectory

Model = TypeVar("Model", bound=BaseModel)

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="=\x00", exclude_categories=("Cc", "Cs")), min_size=1)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=("Cc", "Cs")))
PAIRS = st.dictionaries(TEXT.filter(lambda name: not name.startswith("-")), VALUES, max_size=3)
FAULTS = st.lists(st.sampled_from(sorted(plugins.faults())), min_size=1, max_size=4)
WEIGHTS = st.shared(FAULTS, key="faults").flatmap(
    lambda faults: st.dictionaries(st.sampled_from(faults), st.floats(0.001, 1000), max_size=3)
)
FEATURES = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}\.version", fullmatch=True), st.from_regex(r"[0-9]{1,4}", fullmatch=True)
)
PATHS = st.from_regex(r"/[A-Za-z0-9 '$._/-]{1,20}", fullmatch=True)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


REQUESTS = st.builds(
    Request,
    hosts=st.sampled_from(plugins.names("hosts")),
    inventory=optional(PATHS),
    disk=st.sampled_from(["directory", "tmpfs", "ext4", "xfs"]),
    disk_mib=st.integers(16, 65_536),
    memory_mib=optional(st.integers(16, 1 << 20)),
    cpus=optional(st.floats(0.01, 1024)),
    system=st.sampled_from(["reference", "kafka", "kafka:4.3.1", "module:NAME"]),
    switches=PAIRS,
    features=FEATURES,
    layout=st.sampled_from(["controllers", "combined"]),
    nodes=st.integers(1, 9),
    voters=optional(st.integers(1, 9)),
    workload=st.sampled_from(plugins.names("workloads")),
    workload_options=PAIRS,
    concurrency=st.integers(100, 200),
    pinned=st.integers(0, 100),
    burst_seconds=optional(st.floats(0.001, 3600)),
    rate_per_second=st.floats(0.001, 100_000),
    floor=st.integers(0, 9),
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    seed=optional(st.integers(0, 2**31)),
    faults=st.shared(FAULTS, key="faults"),
    weights=WEIGHTS,
    at_once=st.integers(1, 8),
    interval_seconds=st.floats(0.1, 86_400),
    time_limit_seconds=st.floats(0.001, 86_400),
    record_rpcs=st.booleans(),
)
REPRODUCTIONS = st.builds(
    ReproductionRequest,
    system=st.sampled_from(["reference", "kafka"]),
    side=st.sampled_from(["bad", "good", "both"]),
    times=st.integers(1, 1000),
    switches=PAIRS,
    features=FEATURES,
    hosts=st.sampled_from(plugins.names("hosts")),
    inventory=optional(PATHS),
    at_once=optional(st.integers(1, 64)),
    nodes=optional(st.integers(1, 9)),
    full=st.booleans(),
    seed=optional(st.integers(0, 2**31)),
)
EXPLORATIONS = st.builds(
    ExplorationRequest,
    system=st.sampled_from(["reference", "kafka:4.3.1"]),
    switches=PAIRS,
    time_limit_seconds=st.floats(0.001, 86_400),
    run_seconds=st.floats(5, 3_600),
    at_once=optional(st.integers(1, 64)),
    keep_going=st.booleans(),
    seed=optional(st.integers(0, 2**31)),
)


def parsed(model: type[Model], command: str, but: tuple[str, ...] = ()) -> Model:
    """The request that a command line makes."""
    requests: list[Model] = []
    app = typer.Typer(add_completion=False)

    @app.command()
    @takes(model, but)
    def keep(values: dict[str, Any]) -> None:
        requests.append(checked(model, values))

    _, _, *words = shlex.split(command)
    typer.main.get_command(app).main(words, standalone_mode=False)
    return requests[0]


@given(REQUESTS)
def test_command_that_repeats_a_run_makes_the_same_request(request: Request) -> None:
    command = shlex.join(argv_of("run", request, but=PLAN_FILE_ONLY))
    assert parsed(Request, command, PLAN_FILE_ONLY) == request


@given(REPRODUCTIONS)
def test_command_that_repeats_a_reproduction_makes_the_same_request(request: ReproductionRequest) -> None:
    assert parsed(ReproductionRequest, shlex.join(argv_of("reproduce", request))) == request


@given(EXPLORATIONS)
def test_flags_of_an_exploration_make_its_request(request: ExplorationRequest) -> None:
    assert parsed(ExplorationRequest, shlex.join(argv_of("explore", request))) == request


@given(REQUESTS)
def test_request_written_as_a_plan_file_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, request: Request
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(tomli_w.dumps(request.model_dump(mode="json", by_alias=True, exclude_none=True)))
    assert read_request(path, {}) == request


def test_run_with_a_story_stores_its_request_for_the_command_that_repeats_it(tmp_path: Path) -> None:
    story = [StoryStep.of(step) for step in (wait_until(LEADER_KNOWN), cut("leader"), sleep(2))]
    request = Request(story=story, seed=4, switches={"a": "b c"}, node_switches={2: {"d": "e"}})
    run = RunDirectory(tmp_path / "a run")
    run.path.mkdir()
    *command, path = command_of(request, run)
    assert command == ["splitbrain", "run", "--plan"]
    assert read_request(Path(path), {}) == request


def test_keys_of_plan_files_are_spelled_like_flags(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        'time_limit = 3.0\nrate = 5.0\nswitch = { a = "b" }\nweight = { kill = 2.0 }\noption = { c = "d" }\n'
        'faults = ["kill"]\n'
    )
    request = parsed(
        Request, "x run --time-limit 3 --rate 5 --switch a=b --faults kill --weight kill=2 --option c=d", ("story",)
    )
    assert read_request(path, {}) == request


def test_plan_files_of_earlier_releases_are_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        'time_limit_seconds = 3.0\nrate_per_second = 5.0\nswitches = { a = "b" }\n'
        'story = [{ f = "await", value = { condition = "n2 stands aside", within_seconds = 5 } },\n'
        '  { f = "cut", value = { who = "leader", ways = "out" } }, { f = "hold", value = 2 },\n'
        '  { f = "mend", value = { links = [[1, 2]] } }, { f = "settle", value = { within_seconds = 15 } }]\n'
    )
    request = read_request(path, {"rate": 6.0})
    assert (request.time_limit_seconds, request.rate_per_second, request.switches) == (3.0, 6.0, {"a": "b"})
    assert [(step.f, step.value) for step in request.story] == [
        ("await", {"condition": {"name": "is_not_leader", "node": 2}, "within_seconds": 5}),
        ("cut", {"who": "leader", "direction": "out"}),
        ("sleep", 2),
        ("heal_links", {"links": [[1, 2]]}),
        ("await_membership", {"within_seconds": 15}),
    ]
    assert tomllib.loads(path.read_text())["story"][2]["f"] == "hold"


@pytest.mark.parametrize("text", ["pre_vote", "=true", ""])
def test_pair_without_a_name_or_a_value_is_refused_with_its_flag(text: str) -> None:
    with pytest.raises(BadInput, match="--switch: expected NAME=VALUE"):
        parsed(Request, shlex.join(["splitbrain", "run", "--switch", text]), ("story",))
