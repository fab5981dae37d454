"""Independent keys: many short histories side by side instead of one long one, so that checking stays cheap.

Client workers form groups of equal size. Each group works on one key until that key's generator is exhausted or has
emitted its number of operations, then takes the next key, until all keys are used up.

    over_keys(lambda number: mix([(1, reads), (1, writes)], seed=split(seed, number)),
              key_count=100, workers_per_key=5, ops_per_key=300)

What may live here: this one combinator. What may not: what a key means to a workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.engine.combinators import limit
from harness.engine.generator import Context, Generator, Pending, Turn, soonest
from harness.engine.placement import clients
from harness.model import BadInput, Op


@dataclass(frozen=True, slots=True)
class _Group:
    """The key a group of workers is at, and the generator of what is left to do on it."""

    key: str
    inner: Generator


@dataclass(frozen=True, slots=True)
class _OverKeys:
    """groups[i] has the i-th workers_per_key workers in view; it is None when no key was left for it.

    next_key is the number of the next key that nobody works on.
    """

    generator_of: Callable[[int], Generator]
    key_count: int
    workers_per_key: int
    groups: tuple[_Group | None, ...] = ()
    next_key: int = 0

    def next(self, context: Context) -> Turn | None:
        current = self if self.groups else self._begun(context)
        waits: list[Pending] = []
        for position in range(len(current.groups)):
            current, what = current._ask(position, context)
            if isinstance(what, Op):
                return what, current
            if what is not None:
                waits.append(what)
        return (soonest(waits), current) if any(current.groups) else None

    def _begun(self, context: Context) -> _OverKeys:
        group_count, left_over = divmod(len(context.workers), self.workers_per_key)
        if left_over or not group_count:
            raise BadInput(
                f"concurrency: expected a multiple of the {self.workers_per_key} workers that share a key, "
                f"got {len(context.workers)}"
            )
        current = self
        for position in range(group_count):
            current = replace(current, groups=(*current.groups, None))._with_next_key(position)
        return current

    def _ask(self, position: int, context: Context) -> tuple[_OverKeys, Op | Pending | None]:
        """What one group does now, moving it on to further keys while its own is used up."""
        current, view = self, self._view(position, context)
        while group := current.groups[position]:
            if step := group.inner.next(view):
                what, inner = step
                key = group.key
                return current._with(position, _Group(key, inner)), _keyed(what, key)
            current = current._with_next_key(position)
        return current, None

    def _with_next_key(self, position: int) -> _OverKeys:
        if self.next_key == self.key_count:
            return self._with(position, None)
        group = _Group(f"k{self.next_key}", self.generator_of(self.next_key))
        return replace(self._with(position, group), next_key=self.next_key + 1)

    def _with(self, position: int, group: _Group | None) -> _OverKeys:
        groups = (*self.groups[:position], group, *self.groups[position + 1 :])
        return _OverKeys(self.generator_of, self.key_count, self.workers_per_key, groups, self.next_key)

    def _view(self, position: int, context: Context) -> Context:
        start = context.workers.start + position * self.workers_per_key
        return context.within(range(start, start + self.workers_per_key))

    def update(self, context: Context, event: Op) -> Generator:
        position = (context.worker_of(event.process) - context.workers.start) // self.workers_per_key
        group = self.groups[position] if position < len(self.groups) else None
        # An operation on the key before may end after its group has moved on; it is no business of the new key's.
        if group is None or group.key != event.key:
            return self
        inner = group.inner.update(self._view(position, context), event)
        return self._with(position, _Group(group.key, inner))


def _keyed(what: Op | Pending, key: str) -> Op | Pending:
    return Op(what.type, what.f, what.process, key, what.value, what.node) if isinstance(what, Op) else what


def over_keys(
    generator_of: Callable[[int], Generator], *, key_count: int, workers_per_key: int, ops_per_key: int
) -> Generator:
    """Keys `k0`, `k1`, … with ops_per_key operations of generator_of(number) each, by groups of client workers.

    Raises BadInput when first asked, if the workers in view cannot be divided into such groups.
    """
    assert key_count > 0, f"expected a positive number of keys, got {key_count}"
    assert workers_per_key > 0, f"expected a positive number of workers a key, got {workers_per_key}"
    return clients(_OverKeys(lambda number: limit(ops_per_key, generator_of(number)), key_count, workers_per_key))
