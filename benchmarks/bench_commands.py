"""How much CPU a command takes with and without its settings for the collection of garbage.

A command imports hundreds of thousands of objects that stay. The baseline, in the same run, is the same command with
Python's own settings: it collects garbage after every 700 objects, and several times when it exits. The two alternate;
the least of several counts.

    .venv/bin/python benchmarks/bench_commands.py [TIMES]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

TIMES = 8
COMMANDS = (("plugins",), ("scenarios",), ("runs",))
MAIN = "from harness.commands.main import main; main()"
AS_PYTHON_DOES = f"import gc; gc.set_threshold = gc.freeze = lambda *_: None; {MAIN}"


def cpu_seconds(code: str, words: Sequence[str], folder: Path) -> float:
    """The CPU seconds of a process that carries out a command."""
    arguments = [sys.executable, "-c", code, *words]
    process = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"splitbrain {' '.join(words)}: exit {process.returncode}"
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the table."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else TIMES
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "results/runs").mkdir(parents=True)
        for words in COMMANDS:
            pairs = [[cpu_seconds(code, words, folder) for code in (AS_PYTHON_DOES, MAIN)] for _ in range(times)]
            baseline, own = (min(each) for each in zip(*pairs, strict=True))
            rows.append((" ".join(words), baseline, own, own / baseline))
    print(tabulate(rows, headers=("command", "CPU s, baseline", "CPU s", "ratio"), floatfmt=".3f"))


if __name__ == "__main__":
    main()
