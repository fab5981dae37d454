"""Ways to try a candidate: how often its runs show the finding, and how often they have to.

    tried = trials.play(plan)           # Tried(failed=2, played=3, run="…")
    trials.accepts(tried.failed)

On real hosts a few runs are played, and judged by the checks that report the finding (JudgedTrials). In simulation many
runs are played, in several processes, without tables and checks, and those counted that break an invariant that goes
with the finding; one of them is judged (ScreenedTrials). Which invariants do is learned from runs of the original.

Contains playing and counting. Does not contain what is tried (harness.replaying.shrink).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable
from concurrent.futures import Executor
from contextlib import closing
from math import ceil
from typing import Final, NamedTuple, Protocol

from harness.model import BadInput, SplitbrainError
from harness.planning.plan import Plan
from harness.replaying.attempts import Attempts
from harness.running.run import refuse_impossible
from harness.simulating.searching import screen

ATTEMPTS_MAX: Final = 5
SCREENED: Final = 20
"""How many runs of a candidate are simulated."""
JUDGED_MAX: Final = 3
"""How many of the runs that fail are judged, until one shows the finding."""
SHARE_OF_BEST: Final = 0.8
"""A simulated candidate fails in so many runs as a share of those of the best one so far."""


class Tried(NamedTuple):
    """How many of a candidate's runs failed, and the directory of one that did; None if none did or was judged."""

    failed: int
    played: int
    run: str | None


class Trials(Protocol):
    """A way to try candidates. Equal plans with equal labels need not be tried twice."""

    label: str

    def play(self, plan: Plan) -> Tried:
        """Play some runs of a plan; none of one that the system or the hosts do not support."""
        ...

    def accepts(self, failed: int) -> bool:
        """Whether so many failed runs are enough."""
        ...

    def measure_by(self, failed: int) -> None:
        """An accepted candidate failed so often; the next ones may be measured by it."""
        ...


class Demand(NamedTuple):
    """A candidate is accepted once so many of its runs have failed, and rejected once so many have passed."""

    failed: int
    passed: int


OF_ORIGINAL: Final = Demand(4, 5)
DEMANDS: Final = (Demand(4, 2), Demand(2, 2), Demand(1, 3))
"""What is asked of a candidate: the first one that the original meets with its failed runs."""


class JudgedTrials:
    """Runs that are stored and judged by the checks that report the finding."""

    def __init__(self, attempts: Attempts, demand: Demand) -> None:
        self.label = ""
        self._attempts, self._demand = attempts, demand

    def play(self, plan: Plan) -> Tried:
        """Play runs until enough have failed or passed."""
        demand = self._demand
        failed = played = 0
        path = None
        with closing(self._attempts.of(plan, min(ATTEMPTS_MAX, sum(demand) - 1))) as runs:
            for run, is_failing in runs:
                failed, played = failed + is_failing, played + 1
                path = str(run.path) if is_failing else path
                if failed >= demand.failed or played - failed >= demand.passed:
                    break
        return Tried(failed, played, path)

    def accepts(self, failed: int) -> bool:
        """Whether the candidate meets the demand."""
        return failed >= self._demand.failed

    def measure_by(self, failed: int) -> None:
        """The demand stays the same."""


class ScreenedTrials:
    """Simulated runs, one for each of SCREENED seeds; those fail that do not pass the screen for one of the reasons.

    A candidate has to fail nearly as often as the best one so far: on real hosts, where the times of events vary more,
    a story that seldom fails in simulation may not fail at all. And one of its runs has to show the finding.
    """

    def __init__(self, attempts: Attempts, pool: Executor, reasons: frozenset[str]) -> None:
        self.label = "screened"
        self._attempts, self._pool, self._reasons = attempts, pool, reasons
        self._best = 0

    def play(self, plan: Plan) -> Tried:
        """Simulate SCREENED runs, fewer if the candidate is rejected before, and judge one that fails."""
        failing, played = [], 0
        with closing(_reasons(self._pool, plan)) as screened:
            for seed, reason in screened:
                played += 1
                if reason in self._reasons:
                    failing.append(seed)
                if not self.accepts(len(failing) + SCREENED - played):
                    return Tried(len(failing), played, None)
        path = _showing(self._attempts, plan, failing[:JUDGED_MAX])
        return Tried(0 if path is None else len(failing), played, path)

    def accepts(self, failed: int) -> bool:
        """Whether the candidate fails often enough."""
        return failed >= max(1, ceil(SHARE_OF_BEST * self._best))

    def measure_by(self, failed: int) -> None:
        """An accepted candidate failed so often: the next ones are measured by it."""
        self._best = max(self._best, failed)


def screened_trials(attempts: Attempts, pool: Executor, plan: Plan) -> ScreenedTrials | None:
    """Trials by the reasons for which runs of this plan show the finding; None if no run shows it.

    Of each reason, a run is judged.
    """
    seeds: dict[str, list[int]] = defaultdict(list)
    for seed, reason in _reasons(pool, plan):
        if reason is not None:
            seeds[reason].append(seed)
    reasons = [reason for reason, own in seeds.items() if _showing(attempts, plan, own[:JUDGED_MAX]) is not None]
    return ScreenedTrials(attempts, pool, frozenset(reasons)) if reasons else None


def _showing(attempts: Attempts, plan: Plan, seeds: Iterable[int]) -> str | None:
    """The directory of the first run that shows the finding."""
    for seed in seeds:
        for run, is_failing in attempts.of(plan.model_copy(update={"seed": seed}), 1):
            if is_failing:
                return str(run.path)
    return None


def _reasons(pool: Executor, plan: Plan) -> Generator[tuple[int, str | None], None, None]:
    """Seeds, and why their runs do not pass the screen, None if they do; none for a plan that cannot be simulated."""
    try:
        refuse_impossible(plan)
    except BadInput:
        return
    seeds = range(plan.seed, plan.seed + SCREENED)
    futures = [pool.submit(_reason, plan.model_copy(update={"seed": seed})) for seed in seeds]
    try:
        yield from ((seed, future.result()) for seed, future in zip(seeds, futures, strict=True))
    finally:
        for future in futures:
            future.cancel()


def _reason(plan: Plan) -> str | None:
    """Why a run does not pass; None if it cannot be simulated."""
    try:
        return screen(plan).reason
    except SplitbrainError:
        return None
