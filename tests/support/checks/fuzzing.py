"""Compares checks with their plain twins on any number of random small histories.

    compare_models("kv", range(100_000))       # Counter({'valid': …, 'invalid': …})

A seed determines a history. The first history on which check and twin differ ends the comparison with a Disagreement
that names its seed. Models and logs are checked by their kernels, transactions on Spark, many at a time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from checkers.linearizability.models import MODELS
from checkers.twins import log as log_twin
from checkers.twins import transactions as twin
from checkers.twins.models import TWINS, explained
from harness.model import Op
from tests.support.checks import plain_rules
from tests.support.checks.model_histories import calls_of, keys_from, random_history
from tests.support.checks.on_spark import SETTINGS, Found, judged
from tests.support.checks.small_logs import found_by_kernel, random_case
from tests.support.checks.small_transactions import matched
from tests.support.checks.transaction_corruptions import Form
from tests.support.checks.transaction_disturbances import random_transactions

CYCLES = ("G0", "G1c", "G-single", "G2")
AT_ONCE, ON_SPARK_AT_ONCE = 2000, 10_000
"""How many histories one call of a kernel, and one Spark job, check."""


class Disagreement(AssertionError):
    """A check and its twin differ on a history."""


def pieces(seeds: range, at_once: int) -> Iterator[range]:
    """The seeds in ranges of at_once."""
    return (seeds[first : first + at_once] for first in range(0, len(seeds), at_once))


def compare_models(model: str, seeds: range) -> Counter[str]:
    """The verdicts of a model's kernels, each confirmed by trying every order."""
    verdicts = Counter[str]()
    words = ("read", "write") if model == "register" else ()
    for piece in pieces(seeds, AT_ONCE):
        histories = [random_history(model, random.Random(f"{model}/{seed}"), words=words) for seed in piece]
        outcomes = MODELS[model].judge(keys_from(model, histories), SETTINGS)
        for seed, ops, outcome in zip(piece, histories, outcomes, strict=True):
            verdict = outcome.problem.severity if outcome.problem else "valid"
            is_explained = explained(calls_of(ops), TWINS[model][1], TWINS[model][0])
            if verdict != ("valid" if is_explained else "invalid"):
                raise Disagreement(f"{model}, seed {seed}: {outcome}, the twin has {is_explained}")
            verdicts[verdict] += 1
    return verdicts


def compare_logs(seeds: range) -> Counter[str]:
    """The verdicts of the log's kernel, whose findings and witnesses equal its twin's."""
    verdicts = Counter[str]()
    for seed in seeds:
        ops = random_case(seed)
        found, expected = sorted(found_by_kernel(ops)), sorted(log_twin.findings(ops))
        if found != expected:
            raise Disagreement(f"log, seed {seed}: {found}, the twin has {expected}")
        verdicts[verdict_of({severity for _, _, severity, _ in found})] += 1
    return verdicts


def compare_transactions(form: Form, seeds: range, spark: SparkSession) -> Counter[str]:
    """The verdicts of the transactions check on Spark, whose findings equal its twins'."""
    verdicts = Counter[str]()
    for piece in pieces(seeds, ON_SPARK_AT_ONCE):
        histories = [random_transactions(seed, form) for seed in piece]
        for seed, ops, found in zip(piece, histories, judged(spark, "transactions", histories), strict=True):
            require_the_twins_findings(ops, found, form == "register", f"transactions, {form}, seed {seed}")
            verdicts[verdict_of({one.severity for one in found})] += 1
    return verdicts


def verdict_of(severities: set[str]) -> str:
    """The verdict that findings of these severities give."""
    return next((each for each in ("invalid", "unknown") if each in severities), "valid")


def require_the_twins_findings(ops: Sequence[Op], found: Sequence[Found], registers: bool, where: str) -> None:
    """Raise Disagreement unless these are the twins' cycles, and equally many of every other finding."""
    events = twin.transactions(ops)
    begins = {each.txn for each in events}
    cycles = [(one.name, [at for at in one.witnesses if at in begins]) for one in found if one.name.startswith(CYCLES)]
    sound = plain_rules.sound(events, registers)
    expected = twin.cycles(twin.edges(sound, registers))
    if not matched([(name, nodes, len(nodes)) for name, nodes in cycles], expected):
        raise Disagreement(f"{where}: cycles {cycles}, the twin has {expected}")
    others = Counter(one.name for one in found if not one.name.startswith(CYCLES))
    counted = Counter(name for name, _ in twin.others(sound, registers).elements())
    counted += plain_rules.names(events, registers)
    if others != counted:
        raise Disagreement(f"{where}: {dict(others)}, the twins have {dict(counted)}")
