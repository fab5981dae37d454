"""The pytest plugin: runs and scenarios as tests, judged like any other run.

    @pytest.mark.splitbrain("PV-01")
    def test_pre_vote(reproduction):
        assert reproduction.quantity("epochs_burned", "good-1") == 0

    def test_leader_is_replaced(splitbrain_run):
        run = splitbrain_run(workload="register", story=[cut(LEADER), sleep(3), heal()], seed=7)
        run.assert_valid()

pytest loads this module wherever splitbrain is installed, so it imports what it needs when a test uses it. One Spark
session judges all tests of a process. docs/pytest.md has a whole example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from results.run_verdict import RunVerdict
    from results.store import RunDirectory

MARKER = "splitbrain"
FINDINGS_SHOWN = 5
"""The first finding of so many kinds is in a failure's message."""


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A run or a reproduction that was carried out and judged: its directory and its verdict."""

    directory: RunDirectory
    verdict: RunVerdict

    @property
    def report(self) -> Path:
        """The report, an HTML file."""
        return self.directory.report

    @property
    def findings(self) -> list[str]:
        """The names of the broken guarantees and open questions, each once."""
        shown = (each.name for each in self.verdict.findings if each.severity != "tolerated")
        return list(dict.fromkeys(shown))

    def quantity(self, name: str, side: str | None = None) -> float:
        """What was measured, e.g. `commit_gap_ms`; of a reproduction, on a side such as `good-1`.

        Raises KeyError for what was not measured.
        """
        from results.run_verdict import read_verdict

        verdict = self.verdict if side is None else read_verdict(self.directory.path / side / "verdict.json")
        return {each.name: each.value for each in verdict.quantities}[name]

    def assert_valid(self) -> None:
        """Fail the test unless the run is valid, or the reproduction as documented; unknown does not pass."""
        __tracebackhide__ = True
        if self.verdict.verdict.value != "valid":
            pytest.fail(message_of(self), pytrace=False)


def message_of(run: PlayedRun) -> str:
    """Why a run did not pass: the broken guarantees with witnesses, the report, and the command that repeats it."""
    from results.kinds import kinds_of

    verdict = run.verdict
    weighty = [each for each in verdict.findings if each.severity != "tolerated"]
    lines = [f"{verdict.name}: {verdict.verdict.value}: {verdict.summary}"]
    for finding in [kind.findings[0] for kind in kinds_of(weighty)][:FINDINGS_SHOWN]:
        witnesses = f" (operations {', '.join(map(str, finding.witnesses))})" if finding.witnesses else ""
        lines.append(f"  {finding.name}: {finding.message}{witnesses}")
    lines += [f"  expected: {each.text}; {each.measured_text}" for each in verdict.expectations if not each.met]
    return "\n".join([*lines, f"report: {run.report}", f"repeat: {verdict.command}"])


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that says where runs are stored."""
    group = parser.getgroup("splitbrain")
    group.addoption("--splitbrain-store", metavar="FOLDER", help="Folder of the runs; a temporary one by default.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    text = (
        "splitbrain(scenario, check=True, **options): reproduce a scenario, with the options of `splitbrain reproduce`"
    )
    config.addinivalue_line("markers", text)


@pytest.fixture(scope="session")
def splitbrain_store(request: pytest.FixtureRequest) -> Path:
    """The folder of the runs: that of --splitbrain-store, or a temporary one."""
    given = request.config.getoption("--splitbrain-store")
    if given:
        return Path(given).absolute()
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    return factory.mktemp("splitbrain") / "runs"


@pytest.fixture
def splitbrain_cluster() -> Mapping[str, Any]:
    """The cluster of every run: keys of a plan file, e.g. system, hosts, nodes. A test module overrides it."""
    return {}


@pytest.fixture
def splitbrain_workload() -> Mapping[str, Any]:
    """The load of every run: keys of a plan file, e.g. workload, rate. A test module overrides it."""
    return {}


@pytest.fixture
def splitbrain_nemesis() -> Mapping[str, Any]:
    """The faults of every run: story, or keys of a plan file such as faults. A test module overrides it."""
    return {}


@pytest.fixture
def splitbrain_run(
    splitbrain_store: Path,
    splitbrain_cluster: Mapping[str, Any],
    splitbrain_workload: Mapping[str, Any],
    splitbrain_nemesis: Mapping[str, Any],
) -> Callable[..., PlayedRun]:
    """A function that plays and judges a run; its arguments are the keys of a plan file, e.g. system, nodes, workload.

    They precede those of the fixtures. story takes steps of harness.model.story. The function raises BadInput for what
    a plan file is refused for.
    """

    def play(**given: Any) -> PlayedRun:
        from harness.model.story import Step
        from harness.planning.plan import Request, checked
        from harness.planning.story_steps import StoryStep
        from harness.running.run import run_request

        values = {**splitbrain_cluster, **splitbrain_workload, **splitbrain_nemesis, **given}
        story = [StoryStep.of(step) if isinstance(step, Step) else step for step in values.pop("story", ())]
        request = checked(Request, {**values, "story": story})
        return PlayedRun(*run_request(request, splitbrain_store, None, lambda _event: None))

    return play


@pytest.fixture
def splitbrain_reproduce(splitbrain_store: Path, splitbrain_cluster: Mapping[str, Any]) -> Callable[..., PlayedRun]:
    """A function that reproduces a scenario by its id, on the cluster of the fixture.

    Its arguments are the options of `splitbrain reproduce`.
    """

    def reproduce(scenario: str, **given: Any) -> PlayedRun:
        from harness import plugins
        from harness.planning.plan import ReproductionRequest, checked
        from harness.running.reproduce import reproduce_scenarios

        request = checked(ReproductionRequest, {**splitbrain_cluster, **given})
        scenarios = [plugins.scenario(scenario)]
        (reproduced,) = reproduce_scenarios(scenarios, request, splitbrain_store, None, lambda _event: None)
        return PlayedRun(*reproduced)

    return reproduce


@pytest.fixture(autouse=True)
def _splitbrain_marked(request: pytest.FixtureRequest) -> None:
    """Reproduce the scenario of a marked test before it, even if the test does not ask for the result."""
    if request.node.get_closest_marker(MARKER) is not None:
        request.getfixturevalue("reproduction")


@pytest.fixture
def reproduction(request: pytest.FixtureRequest) -> PlayedRun:
    """The reproduction of the test's scenario. The test fails unless it is as documented, or check is False."""
    marker = request.node.get_closest_marker(MARKER)
    if marker is None or len(marker.args) != 1:
        pytest.fail('reproduction: expected a marker such as @pytest.mark.splitbrain("PV-01")', pytrace=False)
    options = dict(marker.kwargs)
    is_checked = options.pop("check", True)
    reproduce: Callable[..., PlayedRun] = request.getfixturevalue("splitbrain_reproduce")
    played = reproduce(marker.args[0], **options)
    if is_checked:
        played.assert_valid()
    return played
