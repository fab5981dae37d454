"""What each model accepts: its name, the f of its operations, and whether an initial value can be set.

A reader of histories needs this before anything is judged, so nothing here imports Spark or a kernel. The code that
checks a model is in checkers/linearizability/models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.model import BadInput
from harness.model.suggestions import did_you_mean

CHECK: Final = "linearizability"
"""The check that external histories are judged by."""


@dataclass(frozen=True, slots=True)
class Signature:
    """fs: the operations' f; the position is the code. The first returns a value (empty if the model has no such
    operation), the others carry one. takes_initial: whether an initial value can be set.
    """

    name: str
    fs: tuple[str, ...]
    takes_initial: bool = True


REGISTER: Final = Signature("register", ("read", "write", "cas"))
CAS_REGISTER: Final = Signature("cas-register", REGISTER.fs)
KEY_VALUE: Final = Signature("kv", ("get", "put", "append"))
MUTEX: Final = Signature("mutex", ("", "acquire", "release"), takes_initial=False)
SET: Final = Signature("set", ("read", "add"))
QUEUE: Final = Signature("fifo-queue", ("dequeue", "enqueue"), takes_initial=False)
SET_FULL: Final = Signature("set-full", SET.fs)
COUNTER: Final = Signature("counter", ("read", "add", "increment", "decrement"))
UNIQUE_IDS: Final = Signature("unique-ids", ("generate",), takes_initial=False)

SIGNATURES: Final[Mapping[str, Signature]] = {
    each.name: each for each in (REGISTER, CAS_REGISTER, KEY_VALUE, MUTEX, SET, QUEUE, SET_FULL, COUNTER, UNIQUE_IDS)
}


def signature_named(name: str) -> Signature:
    """The signature of the model of this name. Raises BadInput for an unknown name."""
    if name not in SIGNATURES:
        known = sorted(SIGNATURES)
        raise BadInput(f"--model {name}: expected one of {', '.join(known)}{did_you_mean(name, known)}")
    return SIGNATURES[name]
