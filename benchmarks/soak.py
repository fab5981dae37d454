"""A long run without faults: it must be valid, without a finding, and the memory of its controller must not grow.

    python benchmarks/soak.py [--system reference] [--seconds 600]

Runs the product's own command without faults and samples the controller's resident memory each second. Prints the
median of the second tenth of the run beside that of the last tenth, and their ratio: the first tenth fills caches.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate


def controllers(store: str) -> list[int]:
    """The pids of controllers whose run is below store."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"harness.running.controller" in words and b"/python" in words[0] and store.encode() in b" ".join(words):
            found.append(int(process.name))
    return found


def resident_mib(pid: int) -> float | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", default="reference")
    parser.add_argument("--seconds", type=int, default=600)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="splitbrain-soak-") as store:
        flags = ["--workload", "register", "--faults", "none", "--rate", "200", "--time-limit", str(options.seconds)]
        command = [str(Path(sys.executable).with_name("splitbrain")), "run", "--system", options.system, *flags]
        run = subprocess.Popen([*command, "--store", store, "--format", "json"], stdout=subprocess.PIPE, text=True)
        samples: list[float] = []
        while run.poll() is None:
            samples += [mib for pid in controllers(store) if (mib := resident_mib(pid)) is not None]
            time.sleep(1)
        assert run.stdout is not None
        verdict = json.loads(run.stdout.read())
    tenth = len(samples) // 10
    early, late = statistics.median(samples[tenth : 2 * tenth]), statistics.median(samples[-tenth:])
    counted = {quantity["name"]: quantity["value"] for quantity in verdict["quantities"]}
    row = (options.system, verdict["verdict"], len(verdict["findings"]), counted["ok_count"], early, late, late / early)
    headers = ("system", "verdict", "findings", "ok ops", "early MiB", "late MiB", "ratio")
    print(tabulate([row], headers=headers, floatfmt=".2f"))


if __name__ == "__main__":
    main()
