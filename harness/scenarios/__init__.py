"""The catalogue: every scenario that can be played, by its id. One module a KIP; each scenario is a value."""

from __future__ import annotations

from harness.model import BadInput
from harness.model.scenario import Scenario
from harness.scenarios import exploratory, kip_595, kip_996, kip_996_elections, regressions

MODULES = (kip_996, kip_996_elections, kip_595, exploratory, regressions)
CATALOGUE: dict[str, Scenario] = {s.id: s for module in MODULES for s in module.SCENARIOS}


def scenario(identifier: str) -> Scenario:
    """The scenario of that id, whatever its case. Raises BadInput naming the known ones."""
    found = CATALOGUE.get(identifier.upper())
    if found is None:
        raise BadInput(f"scenario {identifier!r}: expected one of {', '.join(sorted(CATALOGUE))}")
    return found
