"""The releases of a simulated quorum in the middle of an upgrade: some nodes have another one, or change to it.

Contains what is drawn of it, and which releases go together. Does not contain the rest of what is drawn (timed.py,
harness.exploration.drawing).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from harness import plugins
from harness.exploration.drawing import has_dynamic_voters
from harness.model import BadInput
from harness.model.story import Step, change_version, sleep, stop
from harness.planning.story_steps import StoryStep
from harness.simulating.request import SimulationRequest
from harness.systems.cluster import versions_in

STOPPED_SECONDS = 0.5
"""How long a node that is stopped before its upgrade may take to shut down."""


def require_other_releases(request: SimulationRequest) -> None:
    """Raise BadInput unless the releases beside the system's own are others of the same system."""
    system, _ = plugins.system(request.system)
    for option, name in _others(request).items():
        if not system.default_version:
            raise BadInput(f"--{option} {name}: expected --system kafka, found {request.system}")
        other, version = plugins.system(name)
        if other is not system or not version or name == request.system:
            expected = f"{system.name}:VERSION, another release than that of --system {request.system}"
            raise BadInput(f"--{option} {name}: expected {expected}")


def _others(request: SimulationRequest) -> Mapping[str, str]:
    named = {"beside": request.beside, "upgrade-to": request.upgrade_to}
    return {option: name for option, name in named.items() if name is not None}


def system_to_draw_for(request: SimulationRequest) -> str:
    """The system whose quorums are drawn: of several releases, the one whose voters cannot change, if there is one."""
    return next((name for name in _others(request).values() if not has_dynamic_voters(name)), request.system)


def other_systems(request: SimulationRequest, seed: int, nodes: int) -> Mapping[int, str]:
    """The nodes of a seed's run that have the release beside the other one: at least one, and not all."""
    if request.beside is None:
        return {}
    choice = random.Random(f"beside {seed}")
    chosen = choice.sample(range(1, nodes + 1), choice.randint(1, nodes - 1))
    return dict.fromkeys(sorted(chosen), request.beside)


def with_upgrade(story: Sequence[Step], request: SimulationRequest, seed: int, nodes: int) -> Sequence[Step]:
    """The story of a seed's run, in which some nodes or all change to the later release, one after another.

    Half of them are stopped before, the others are not. A node that is healed has the release that it began with.
    """
    if request.upgrade_to is None:
        return story
    choice = random.Random(f"upgrade {seed}")
    upgraded = choice.sample(range(1, nodes + 1), choice.randint(1, nodes))
    # The last step heals.
    places = sorted((choice.randrange(len(story)) for _ in upgraded), reverse=True)
    steps = list(story)
    for node, place in zip(upgraded, places, strict=True):
        name = f"n{node}"
        stopped = choice.choice(([], [stop(name), sleep(STOPPED_SECONDS)]))
        steps[place:place] = [*stopped, change_version(name, request.upgrade_to)]
    return steps


def later_versions(system_name: str, story: Iterable[Step | StoryStep]) -> tuple[str, ...]:
    """The releases that a story gives to nodes of a system. Raises BadInput for another system."""
    system, _ = plugins.system(system_name)
    later = {name: plugins.system(name) for name in versions_in(story)}
    for name, (other, version) in later.items():
        if other is not system or not version:
            raise BadInput(f"story: change_version {name}: expected a release of {system.name} on simulated nodes")
    return tuple(sorted({version for _, version in later.values()}))
