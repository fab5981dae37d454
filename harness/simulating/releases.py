"""Which nodes of a simulated run have the release beside the other one: a quorum in the middle of an upgrade.

Contains this choice, and which two releases go together. Does not contain the rest of what is drawn (timed.py,
harness.exploration.drawing).
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from harness import plugins
from harness.exploration.drawing import has_dynamic_voters
from harness.model import BadInput
from harness.simulating.request import SimulationRequest


def require_other_release(request: SimulationRequest) -> None:
    """Raise BadInput unless the release beside the other one, if there is one, is another of the same system."""
    name, beside = request.system, request.beside
    if beside is None:
        return
    (system, _), (other, version) = plugins.system(name), plugins.system(beside)
    if not system.default_version:
        raise BadInput(f"--beside {beside}: expected --system kafka, found {name}")
    if other is not system or not version or beside == name:
        raise BadInput(f"--beside {beside}: expected another release of {system.name}, such as {system.name}:3.9.1")


def system_to_draw_for(request: SimulationRequest) -> str:
    """The system whose quorums are drawn: of two releases, the one whose voters cannot change, if there is one."""
    beside = request.beside
    return request.system if beside is None or has_dynamic_voters(beside) else beside


def other_systems(request: SimulationRequest, seed: int, nodes: int) -> Mapping[int, str]:
    """The nodes of a seed's run that have the release beside the other one: at least one, and not all."""
    if request.beside is None:
        return {}
    choice = random.Random(f"beside {seed}")
    chosen = choice.sample(range(1, nodes + 1), choice.randint(1, nodes - 1))
    return dict.fromkeys(sorted(chosen), request.beside)
