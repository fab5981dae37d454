"""The models that histories are checked against, by name: linearizable ones, and weaker ones.

To add a model: give it a signature (checkers/linearizability/signatures.py), write a module with the kernel that checks
it, and name that in MODELS.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.linearizability.models import (
    counter,
    grow_set,
    key_value,
    lock,
    queue,
    register,
    set_full,
    unique_ids,
)
from checkers.linearizability.models.model import Model
from checkers.linearizability.signatures import signature_named

MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        *(register.REGISTER, register.CAS_REGISTER, key_value.KEY_VALUE, lock.MUTEX, grow_set.SET, queue.QUEUE),
        *(set_full.SET_FULL, counter.COUNTER, unique_ids.UNIQUE_IDS),
    )
}


def model_named(name: str) -> Model:
    """The model of this name. Raises BadInput for an unknown name."""
    return MODELS[signature_named(name).name]
