"""Check and twin agree on a few thousand random histories; benchmarks/fuzz_checks.py compares as many as one likes."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from checkers.twins.models import TWINS
from tests.support.checks import fuzzing
from tests.support.checks.on_spark import Found
from tests.support.checks.transaction_corruptions import planted

FIRST = 1_000_000
"""Other seeds than those that the command begins with."""


@pytest.mark.parametrize("model", TWINS)
def test_a_model_s_kernels_agree_with_trying_every_order(model: str) -> None:
    told = fuzzing.compared_models(model, range(FIRST, FIRST + 2000))
    assert told.keys() == {"valid", "invalid"}
    assert min(told.values()) > 100


def test_the_log_s_kernel_agrees_with_its_twin() -> None:
    told = fuzzing.compared_logs(range(FIRST, FIRST + 1500))
    assert told.keys() == {"valid", "invalid", "unknown"}
    assert min(told.values()) > 100


@pytest.mark.spark
@pytest.mark.parametrize("form", ["list", "register", "log"])
def test_transactions_agree_with_their_twins(spark: SparkSession, form: fuzzing.Form) -> None:
    told = fuzzing.compared_transactions(form, range(FIRST, FIRST + 200), spark)
    assert told["valid"] > 50
    assert told["invalid"] > 20


def test_a_comparison_fails_where_a_finding_is_left_out_or_renamed_or_told_twice() -> None:
    ops = planted("lists: a torn read", 0)[1]
    told = fuzzing.twin.transactions(ops)
    ((name, nodes, _),) = fuzzing.twin.cycles(fuzzing.twin.edges(told, registers=False))
    ends = Counter({each.txn: each.end for each in told})
    right = Found(name, "invalid", tuple(sorted({*nodes, *(ends[node] for node in nodes)})))
    fuzzing.refuse_unlike_the_twins(ops, [right], False, "as it is")
    for wrong in ([], [right, right], [replace_name(right, "G2")], [right, replace_name(right, "G1a")]):
        with pytest.raises(fuzzing.Disagreement):
            fuzzing.refuse_unlike_the_twins(ops, wrong, False, "changed")


def replace_name(found: Found, name: str) -> Found:
    """The finding under another name."""
    return found._replace(name=name)
