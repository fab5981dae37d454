"""The benchmarks' histories are as described: valid, broken by one stale read, equal for equal seeds."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from checkers.framework.contract import JudgeSettings
from checkers.linearizability.models.register import CAS_REGISTER
from harness.model import Op
from harness.model.records.tables import HISTORY
from tests.support.checks.model_histories import keys_from

spec = importlib.util.spec_from_file_location("generators", Path(__file__).parents[2] / "benchmarks" / "generators.py")
assert spec is not None
assert spec.loader is not None
generators = importlib.util.module_from_spec(spec)
sys.modules["generators"] = generators
spec.loader.exec_module(generators)

SMALL = generators.Recipe(600, seed=3, processes=6)
RECIPES = {
    "unique values": SMALL,
    "unique values, some crashed": replace(SMALL, crashed=5),
    "swaps": replace(SMALL, swaps=0.3),
    "swaps, some crashed": replace(SMALL, swaps=0.3, crashed=5),
    "values that repeat": replace(SMALL, values=4, swaps=0.3, crashed=3),
    "skewed keys": replace(SMALL, keys=20, skew=1.2, swaps=0.2),
}


def ops_of(recipe: generators.Recipe, block: int = 1 << 20) -> list[Op]:
    rows = pa.concat_tables(generators.tables(recipe, block)).to_pylist()
    return [Op(**{**row, "value": json.loads(row["value"] or "null")}) for row in rows]


def verdicts(ops: list[Op]) -> dict[str, bool]:
    """Whether each key is valid."""
    keys = sorted({str(op.key) for op in ops})
    by_key = [[op for op in ops if op.key == key] for key in keys]
    found = CAS_REGISTER.judge(keys_from("cas-register", by_key), JudgeSettings())
    return {key: outcome.problem is None for key, outcome in zip(keys, found, strict=True)}


@pytest.mark.parametrize("block", [1 << 20, 64], ids=["one block", "many blocks"])
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_a_generated_history_is_valid(recipe: generators.Recipe, block: int) -> None:
    ops = ops_of(recipe, block)
    assert all(verdicts(ops).values())
    assert [op.index for op in ops] == list(range(2 * recipe.operations))
    ends = Counter(op.type for op in ops)
    assert (ends["invoke"], ends["info"]) == (recipe.operations, recipe.crashed)
    assert (ends["fail"] > 0) == (recipe.swaps > 0)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_a_process_has_one_operation_open_and_never_runs_again_after_a_crash(recipe: generators.Recipe) -> None:
    last: dict[int, str] = {}
    for op in ops_of(recipe, 100):
        before = last.get(op.process, "ok")
        assert before in (("ok", "fail") if op.type == "invoke" else ("invoke",)), op
        last[op.process] = op.type


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["unique values", "swaps, some crashed", "skewed keys"])
def test_one_stale_read_breaks_one_key(name: str, seed: int) -> None:
    found = verdicts(ops_of(replace(RECIPES[name], seed=seed, operations=1500, stale=True)))
    assert list(found.values()).count(False) == 1


def test_a_seed_has_one_history() -> None:
    (table,), (again,), (other,) = (list(generators.tables(replace(SMALL, seed=seed))) for seed in (1, 1, 2))
    assert table.schema == HISTORY
    assert table.equals(again)
    assert not table.equals(other)


def test_keys_are_skewed() -> None:
    counts = Counter(op.key for op in ops_of(RECIPES["skewed keys"]))
    assert counts["0"] > 5 * counts["15"]


def test_a_history_without_room_for_a_stale_read_is_refused() -> None:
    with pytest.raises(SystemExit, match="too short"):
        list(generators.tables(replace(SMALL, operations=20, stale=True)))
