"""Check and twin agree on random histories; benchmarks/fuzz_checks.py compares any number of them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.twins.models import TWINS
from tests.support.checks import fuzzing
from tests.support.checks.on_spark import Found
from tests.support.checks.transaction_corruptions import planted

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FIRST = 1_000_000
"""The first seed. It differs from that of the command, which begins with 0."""


@pytest.mark.parametrize("count", [300, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", TWINS)
def test_a_models_kernels_agree_with_trying_every_order(model: str, count: int) -> None:
    verdicts = fuzzing.compare_models(model, range(FIRST, FIRST + count))
    assert verdicts.keys() == {"valid", "invalid"}
    assert min(verdicts.values()) > count / 20


@pytest.mark.parametrize("count", [300, pytest.param(1500, marks=pytest.mark.slow)])
def test_the_logs_kernel_agrees_with_its_twin(count: int) -> None:
    verdicts = fuzzing.compare_logs(range(FIRST, FIRST + count))
    assert verdicts.keys() == {"valid", "invalid", "unknown"}
    assert min(verdicts.values()) > count / 15


@pytest.mark.spark
@pytest.mark.parametrize("form", ["list", "register", "log"])
def test_transactions_agree_with_their_twins(spark: SparkSession, form: fuzzing.Form) -> None:
    verdicts = fuzzing.compare_transactions(form, range(FIRST, FIRST + 200), spark)
    assert verdicts["valid"] > 50
    assert verdicts["invalid"] > 20


def test_a_comparison_fails_when_a_finding_is_missing_renamed_or_repeated() -> None:
    ops = planted("lists: a torn read", 0)[1]
    events = fuzzing.twin.transactions(ops)
    ((name, nodes, _),) = fuzzing.twin.cycles(fuzzing.twin.edges(events, registers=False))
    ends = Counter({each.txn: each.end for each in events})
    right = Found(name, "invalid", tuple(sorted({*nodes, *(ends[node] for node in nodes)})))
    fuzzing.require_the_twins_findings(ops, [right], False, "unchanged")
    for wrong in ([], [right, right], [replace_name(right, "G2")], [right, replace_name(right, "G1a")]):
        with pytest.raises(fuzzing.Disagreement):
            fuzzing.require_the_twins_findings(ops, wrong, False, "changed")


def replace_name(found: Found, name: str) -> Found:
    """The finding under another name."""
    return found._replace(name=name)


def test_the_command_compares_and_prints_the_verdicts() -> None:
    command = [sys.executable, str(BENCHMARKS / "fuzz_checks.py"), "--histories", "40", "--only", "mutex"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert re.search(r"^mutex +40 +\d+ +\d+ +0 ", completed.stdout, re.MULTILINE)


def test_every_benchmark_can_be_imported() -> None:
    script = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); [__import__(name) for name in sys.argv[1:]]"
    names = [file.stem for file in sorted(BENCHMARKS.glob("*.py"))]
    completed = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert len(names) > 10
