"""The kernels compared with their plain twins on random small histories, and literal ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from checkers.framework.encoding import REFUSED
from checkers.framework.keyed import Keys
from checkers.framework.operations import register_operations
from checkers.kernels import promises, search, zones
from checkers.kernels.rows import INVOKE, NEVER, NIL, NOBODY, OK, partners
from checkers.kernels.steps import NO_TEXTS, Operations
from checkers.twins import registers as twins
from harness.model import Op
from tests.support.checks.small_histories import arrays, history, random_register, read, write


def keys_of(ops: Sequence[Op], swaps_as_observations: bool = True) -> Keys:
    """One key's ops as the checks pass them to the kernels."""
    texts = ["nil", *(str(value) for value in range(1, 30))]
    pairs = sorted({str(op.value) for op in ops if isinstance(op.value, list)})
    numbered = [
        Op(op.type, op.f, op.process, op.key, 30 + pairs.index(str(op.value)), op.node)
        if isinstance(op.value, list)
        else op
        for op in ops
    ]
    columns = arrays(numbered)
    refused = np.array([op.error == "mismatch" for op in ops])
    columns["kind"] = np.where(refused & swaps_as_observations, REFUSED, columns["kind"]).astype(np.int8)
    rows = np.arange(len(ops))
    starts = np.array([0, len(ops)])
    return Keys(
        names=["x"],
        starts=starts,
        index=rows,
        time_ns=rows,
        final=np.zeros(len(ops), bool),
        partner=partners(columns["kind"], columns["process"], starts, 100),
        texts=[*texts, *pairs],
        **columns,
    )


def judge_zones(keys: Keys) -> int:
    verdicts, _ = zones.judge_registers(keys.starts, keys.kind, keys.f, keys.value, keys.partner, len(keys.texts))
    return int(verdicts[0])


def judge_search(columns: Operations, steps_max: int = 10**6) -> int:
    return int(search.search(columns, NO_TEXTS, NIL, steps_max, 1 << 28)[0])


def operations(keys: Keys) -> Operations:
    return register_operations(keys).of(0)


def plain(columns: Operations) -> list[twins.Operation]:
    return [
        twins.Operation(int(call), None if back == NEVER else int(back), int(code), int(a), int(b))
        for call, back, code, a, b in zip(*columns, strict=True)
    ]


def test_zones_agree_with_trying_every_order() -> None:
    verdicts = []
    for seed in range(6000):
        keys = keys_of(random_register(random.Random(seed), writes_are_unique=True, swaps=False))
        verdict = judge_zones(keys)
        assert (verdict == zones.VALID) == twins.linearizable(plain(operations(keys))), f"seed {seed}"
        verdicts.append(verdict)
    assert set(verdicts) == {
        zones.VALID, zones.NEVER_WRITTEN, zones.FUTURE_READ, zones.ZONES_CROSS, zones.ZONE_INSIDE,
    }  # fmt: skip


@pytest.mark.parametrize("unique", [True, False], ids=["unique values", "three values"])
@pytest.mark.parametrize("swaps", [True, False], ids=["with compare-and-set", "without"])
def test_search_agrees_with_trying_every_order(unique: bool, swaps: bool) -> None:
    verdicts = []
    for seed in range(3000):
        keys = keys_of(random_register(random.Random(seed), unique, swaps))
        columns = operations(keys)
        verdict = judge_search(columns)
        assert (verdict == search.VALID) == twins.linearizable(plain(columns)), f"seed {seed}"
        verdicts.append(verdict)
    assert set(verdicts) == {search.VALID, search.INVALID}


def test_zones_leave_repeated_values_to_the_search() -> None:
    assert judge_zones(keys_of(history(*write(0, 1), *write(0, 1)))) == zones.NOT_UNIQUE


def test_search_takes_more_operations_open_at_once_than_a_machine_word_has_bits() -> None:
    starts = [Op("invoke", "write", process, "x", process % 3 + 1) for process in range(90)]
    columns = operations(keys_of(history(*starts, *(start.ok() for start in starts), *read(99, 2))))
    assert judge_search(columns) == search.VALID


def test_search_takes_more_crashed_operations_than_a_machine_word_has_bits() -> None:
    starts = [Op("invoke", "write", process, "x", 2) for process in range(80)]
    crashed = [*starts, *(start.info("timeout") for start in starts)]
    reads = [*read(98, 1), *read(98, 2), *read(98, 1)]
    keys = keys_of(history(*write(98, 1), *crashed, *reads))
    assert judge_search(operations(keys)) == search.INVALID


def test_search_says_undecided_when_its_budget_is_spent() -> None:
    starts = [Op("invoke", "write", process, "x", process % 3 + 1) for process in range(12)]
    columns = operations(keys_of(history(*starts, *(start.ok() for start in starts), *read(99, 4))))
    assert judge_search(columns, steps_max=50) == search.UNDECIDED


def accesses(keys: Keys) -> list[twins.Access]:
    """The ops as the twin takes them: without crashed reads and failed operations."""
    found = []
    for start in np.flatnonzero(keys.kind == INVOKE):
        end = keys.partner[start]
        ended = NOBODY if end == NOBODY else keys.kind[end]
        is_read = keys.f[start] == 0
        if ended == OK:
            value = keys.value[end] if is_read else keys.value[start]
            found.append(twins.Access(int(start), int(end), is_read, int(value), int(keys.node[start])))
        elif not is_read and ended in (NOBODY, 3):
            found.append(twins.Access(int(start), None, False, int(keys.value[start])))
    return found


def test_promises_agree_with_their_definitions() -> None:
    seen = np.zeros(3, np.int64)
    for seed in range(3000):
        keys = keys_of(random_register(random.Random(seed), True, False, noises=(0, 0.7), size_max=12))
        witnesses, stale = promises.judge_promises(
            keys.starts, keys.kind, keys.f, keys.value, keys.partner, keys.node, keys.time_ns, keys.final, 40, 4
        )
        twin = accesses(keys)
        late = twins.staleness(twin)
        assert (witnesses[0, promises.PHANTOM, 0] != NOBODY) == bool(twins.phantoms(twin)), f"seed {seed}"
        assert (witnesses[0, promises.BACKWARDS, 0] != NOBODY) == bool(twins.backwards(twin)), f"seed {seed}"
        assert stale[0, 0] == len(late), f"seed {seed}"
        assert stale[0, 1] == max((read.call - newer for read, newer in late.items()), default=0), f"seed {seed}"
        seen += [bool(twins.phantoms(twin)), bool(twins.backwards(twin)), bool(late)]
    assert (seen > 50).all()
