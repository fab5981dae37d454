"""Independent keys: many short histories instead of one long one, so that checking stays cheap (jepsen.independent).

Client workers form groups of equal size. Each group works on one key until that key's generator is exhausted or has
emitted its maximum number of operations, then on the next key, until there are no more keys.

    concurrent_generator(lambda number: mix([(1, reads), (1, writes)], seed=split(seed, number)),
                         key_count=100, workers_per_key=5, ops_per_key=300)

Contains this combinator. Does not contain the meaning of a key to a workload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.engine.combinators import limit
from harness.engine.generator import Context, Emitted, Generator, Pending, soonest
from harness.engine.placement import clients
from harness.model import BadInput, Op


class _Group(NamedTuple):
    """The current key of a group of workers, and the generator of its remaining operations."""

    key: str
    inner: Generator


class _ConcurrentGenerator(NamedTuple):
    """groups[i] has the i-th workers_per_key workers in view; it is None if there are no more keys for it.

    next_key is the number of the next key that is not started.
    """

    generator_of: Callable[[int], Generator]
    key_count: int
    workers_per_key: int
    groups: tuple[_Group | None, ...] = ()
    next_key: int = 0

    @property
    def reacts(self) -> bool:
        return True

    def next(self, context: Context) -> Emitted | None:
        current = self if self.groups else self._started(context)
        pending: list[Pending] = []
        for position in range(len(current.groups)):
            current, op = current._next_of_group(position, context)
            if isinstance(op, Op):
                return op, current
            if op is not None:
                pending.append(op)
        return (soonest(pending), current) if any(current.groups) else None

    def _started(self, context: Context) -> _ConcurrentGenerator:
        group_count, remainder = divmod(len(context.workers), self.workers_per_key)
        if remainder or not group_count:
            raise BadInput(
                f"concurrency: expected a multiple of the {self.workers_per_key} workers per key, "
                f"got {len(context.workers)}"
            )
        current = self
        for position in range(group_count):
            current = current._replace(groups=(*current.groups, None))._with_next_key(position)
        return current

    def _next_of_group(self, position: int, context: Context) -> tuple[_ConcurrentGenerator, Op | Pending | None]:
        """What one group emits now; moves it to the next key while its current one is exhausted."""
        current, view = self, self._view(position, context)
        while group := current.groups[position]:
            if emitted := group.inner.next(view):
                op, inner = emitted
                key = group.key
                return current._with(position, _Group(key, inner)), _keyed(op, key)
            current = current._with_next_key(position)
        return current, None

    def _with_next_key(self, position: int) -> _ConcurrentGenerator:
        if self.next_key == self.key_count:
            return self._with(position, None)
        group = _Group(f"k{self.next_key}", self.generator_of(self.next_key))
        return self._with(position, group)._replace(next_key=self.next_key + 1)

    def _with(self, position: int, group: _Group | None) -> _ConcurrentGenerator:
        groups = (*self.groups[:position], group, *self.groups[position + 1 :])
        return _ConcurrentGenerator(self.generator_of, self.key_count, self.workers_per_key, groups, self.next_key)

    def _view(self, position: int, context: Context) -> Context:
        start = context.workers.start + position * self.workers_per_key
        return context.within(range(start, start + self.workers_per_key))

    def update(self, context: Context, event: Op) -> Generator:
        position = (context.worker_of(event.process) - context.workers.start) // self.workers_per_key
        group = self.groups[position] if position < len(self.groups) else None
        # An operation on the previous key may complete after its group has moved to the next key.
        if group is None or group.key != event.key:
            return self
        inner = group.inner.update(self._view(position, context), event)
        return self if inner is group.inner else self._with(position, _Group(group.key, inner))


def _keyed(op: Op | Pending, key: str) -> Op | Pending:
    return Op(op.type, op.f, op.process, key, op.value, op.node) if isinstance(op, Op) else op


def concurrent_generator(
    generator_of: Callable[[int], Generator], *, key_count: int, workers_per_key: int, ops_per_key: int
) -> Generator:
    """Keys `k0`, `k1`, … with at most ops_per_key operations of generator_of(number) each, on groups of client workers.

    Not for use inside another one: an operation has one key. The first call of next raises BadInput if the workers in
    view cannot be divided into such groups.
    """
    assert key_count > 0, f"expected a positive number of keys, got {key_count}"
    assert workers_per_key > 0, f"expected a positive number of workers per key, got {workers_per_key}"

    def limited(number: int) -> Generator:
        return limit(ops_per_key, generator_of(number))

    return clients(_ConcurrentGenerator(limited, key_count, workers_per_key))
