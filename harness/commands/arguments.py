"""How commands refer to runs: by path, by name or its beginning, as `latest` or `latest-failed`; and shell completion.

Contains what a word on the command line means. Does not contain flags (options.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from harness import plugins
from harness.commands.options import STORE
from harness.model import BadInput, Verdict
from results.run_verdict import read_verdict
from results.store import LATEST, RunDirectory, runs

LATEST_FAILED: Final = "latest-failed"
"""The newest run with a broken guarantee."""


def run_path(word: str, store: Path) -> Path:
    """The directory of a run; a path is returned as it is. Raises BadInput for a name of no run or of several."""
    path = Path(word)
    if path.exists() or "/" in word:
        return path
    names = [run.name for run in runs(store)]
    if word == LATEST and names:
        return store / names[-1]
    if word == LATEST_FAILED:
        failed = (store / name for name in reversed(names) if _has_failed(store / name))
        if newest := next(failed, None):
            return newest
    found = [name for name in names if name == word] or [name for name in names if name.startswith(word)]
    if len(found) == 1:
        return store / found[0]
    if found:
        raise BadInput(f"{word}: expected one run in {store}, found {len(found)}: {', '.join(found[:3])}, …")
    words = f"its beginning, {LATEST} or {LATEST_FAILED}"
    raise BadInput(f"{word}: expected a path, or the name of a run in {store}, {words}")


def _has_failed(run: Path) -> bool:
    """Whether the run's verdict is that a guarantee was broken; a run without a verdict that can be read has not."""
    with suppress(BadInput, OSError):
        return read_verdict(RunDirectory(run).verdict).verdict is Verdict.INVALID
    return False


def is_store(paths: Sequence[Path]) -> bool:
    """Whether the paths are one folder of stored runs, which is no run itself."""
    return len(paths) == 1 and not RunDirectory(paths[0]).status_file.exists() and bool(runs(paths[0]))


def completed(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What the shell offers for an argument: the words that begin as the user typed."""
    return lambda incomplete: [word for word in words() if word.startswith(incomplete)]


def _run_names() -> Iterable[str]:
    return [LATEST, LATEST_FAILED, *(run.name for run in reversed(runs(STORE)))]


RUN_HELP = f"A run: its path, its name or the beginning of it, {LATEST} or {LATEST_FAILED}."

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help=RUN_HELP, show_default=False, autocompletion=completed(_run_names))
]
RunsOrHistories = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN…",
        help=f"{RUN_HELP} Or a folder of runs; with --model, files with histories.",
        show_default=False,
        autocompletion=completed(_run_names),
    ),
]
ScenarioArguments = Annotated[
    list[str],
    typer.Argument(metavar="ID…", help="Scenarios, e.g. PV-01.", autocompletion=completed(lambda: plugins.scenarios())),
]
