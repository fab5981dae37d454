"""Every kind of corruption, planted at random: kernel, plain twin and Spark agree on the expected name.

Each kind is planted in SPLITBRAIN_SEEDS histories, two where that is not set; all histories of a kind of check are
judged in one job, before and after.
"""

from __future__ import annotations

import os
import random

import pytest
from pyspark.sql import SparkSession

from checkers.linearizability.models import MODELS
from checkers.twins import log as log_twin
from checkers.twins.models import TWINS, explained
from tests.support.checks import log_corruptions, model_corruptions, transaction_corruptions
from tests.support.checks.fuzzing import require_the_twins_findings
from tests.support.checks.model_histories import calls_of, keys_from
from tests.support.checks.on_spark import SETTINGS, Found, judged
from tests.support.checks.small_logs import found_by_kernel

pytestmark = pytest.mark.spark

SEEDS = int(os.environ.get("SPLITBRAIN_SEEDS", "2"))
TOLERATED, UNKNOWN = ", tolerated", ", unknown"


def severity_of(name: str) -> str:
    """The severity of a kind of corruption, from its name."""
    return next((each[2:] for each in (TOLERATED, UNKNOWN) if name.endswith(each)), "invalid")


@pytest.mark.parametrize("model", TWINS)
def test_kernel_twin_and_spark_agree_on_corrupted_models(spark: SparkSession, model: str) -> None:
    kinds = [name for name, kind in model_corruptions.CORRUPTIONS.items() if kind.model == model]
    cases = [(name, seed, *model_corruptions.planted(name, seed)) for name in kinds for seed in range(SEEDS)]
    histories = [ops for _, _, before, after in cases for ops in (before, after)]
    keys = keys_from(model, histories)
    rule, initial = TWINS[model]
    by_kernel = [
        [Found(result.name, result.severity, tuple(keys.history_indexes(result.rows)))] if result else []
        for result in (outcome.problem for outcome in MODELS[model].judge(keys, SETTINGS))
    ]
    by_spark = judged(spark, model, histories)
    assert by_spark == by_kernel
    for number, (name, seed, before, after) in enumerate(cases):
        assert by_spark[2 * number] == [], f"{name}, seed {seed}: before"
        assert explained(calls_of(before), initial, rule), f"{name}, seed {seed}: before"
        result = [(found.name, found.severity) for found in by_spark[2 * number + 1]]
        assert result == [("non-linearizable", "invalid")], f"{name}, seed {seed}: after"
        assert not explained(calls_of(after), initial, rule), f"{name}, seed {seed}: after"
    assert len(kinds) >= 4


def test_kernel_twin_and_spark_agree_on_corrupted_logs(spark: SparkSession) -> None:
    kinds = log_corruptions.CORRUPTIONS
    cases = [(name, seed, *log_corruptions.planted(name, seed)) for name in kinds for seed in range(SEEDS)]
    by_spark = judged(spark, "log", [ops for _, _, before, after in cases for ops in (before, after)])
    for number, (name, seed, before, after) in enumerate(cases):
        assert by_spark[2 * number] == log_twin.findings(before) == [], f"{name}, seed {seed}: before"
        found = by_spark[2 * number + 1]
        expected = sorted((result, weight, rows) for _, result, weight, rows in log_twin.findings(after))
        by_kernel = sorted((result, weight, rows) for _, result, weight, rows in found_by_kernel(after))
        assert sorted(found) == by_kernel == expected, f"{name}, seed {seed}: after"
        names = {one.name for one in found}
        assert kinds[name].must <= names <= kinds[name].must | kinds[name].may, f"{name}, seed {seed}: {names}"
        weights = {one.severity for one in found if one.name in kinds[name].must}
        assert weights == {severity_of(name)}, f"{name}, seed {seed}"


@pytest.mark.parametrize("form", ["list", "register", "log"])
def test_twins_and_spark_agree_on_corrupted_transactions(spark: SparkSession, form: str) -> None:
    kinds = {name: kind for name, kind in transaction_corruptions.CORRUPTIONS.items() if kind.form == form}
    cases = [(name, seed, *transaction_corruptions.planted(name, seed)) for name in kinds for seed in range(SEEDS)]
    by_spark = judged(spark, "transactions", [ops for _, _, before, after in cases for ops in (before, after)])
    for number, (name, seed, before, after) in enumerate(cases):
        require_the_twins_findings(before, by_spark[2 * number], form == "register", f"{name}, seed {seed}: before")
        assert by_spark[2 * number] == [], f"{name}, seed {seed}: before"
        found = by_spark[2 * number + 1]
        require_the_twins_findings(after, found, form == "register", f"{name}, seed {seed}: after")
        names = {one.name for one in found}
        must = kinds[name].must
        assert {must} <= names <= {must} | kinds[name].may, f"{name}, seed {seed}: {names}"
        weights = {one.severity for one in found if one.name == must}
        assert weights == {severity_of(name)}, f"{name}, seed {seed}"


def test_corruptions_differ_between_seeds() -> None:
    kinds = {
        **dict.fromkeys(model_corruptions.CORRUPTIONS, model_corruptions.planted),
        **dict.fromkeys(log_corruptions.CORRUPTIONS, log_corruptions.planted),
        **dict.fromkeys(transaction_corruptions.CORRUPTIONS, transaction_corruptions.planted),
    }
    assert len(kinds) >= 80
    for name in random.Random(5).sample(sorted(kinds), 20):
        assert kinds[name](name, 0)[1] != kinds[name](name, 1)[1], name
        assert kinds[name](name, 0) == kinds[name](name, 0), name
