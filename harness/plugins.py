"""Finds everything that has kinds: systems, hosts, workloads, faults, checks and scenarios.

    plugins.faults()["partition"]        plugins.system("kafka:4.3.1")        plugins.system("my_package:MY_SYSTEM")

A kind is one value in one module, registered with an entry point; splitbrain registers its own in pyproject.toml the
same way. A package that adds a kind changes no file of ours:

    [project.entry-points."splitbrain.faults"]
    power_cut = "my_package.power:FAULT"

Contains the look-up. Does not contain any kind.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from harness.model import BadInput
from harness.model.hosts import HostKind
from harness.model.nemesis_ops import NemesisOps
from harness.model.scenario import Scenario
from harness.model.shown_values import shown
from harness.model.suggestions import did_you_mean
from harness.model.systems import SystemKind
from nemesis.fault import Fault, by_action, nemesis_ops
from workloads.workload import WorkloadKind

if TYPE_CHECKING:
    from checkers.framework.contract import Check

T = TypeVar("T")


@cache
def _entry_points(group: str) -> Mapping[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"splitbrain.{group}"):
        if point.name in found and found[point.name].value != point.value:
            raise BadInput(
                f"entry points splitbrain.{group}: {point.name} is registered twice, as {found[point.name].value} and "
                f"{point.value}; expected one"
            )
        found[point.name] = point
    return found


def names(group: str) -> tuple[str, ...]:
    """The names registered in a group, without loading their values."""
    return tuple(sorted(_entry_points(group)))


def load(group: str, name: str, kind: type[T]) -> T:
    """The value registered under a name.

    Raises BadInput for an unknown name, a module that cannot be imported, and a value that is not of that type.
    """
    point = _entry_points(group).get(name)
    if point is None:
        hint = did_you_mean(name, names(group))
        raise BadInput(f"{group.removesuffix('s')} {shown(name)}: expected one of {', '.join(names(group))}{hint}")
    return _checked(_loaded(point.module, point.attr, f"{group}: {point.value}"), kind, f"{group}: {point.value}")


def _loaded(module: str, attribute: str, place: str) -> Any:
    loaded = _imported(module, place)
    try:
        return getattr(loaded, attribute)
    except AttributeError as error:
        raise BadInput(f"{place}: expected the name of a value in the module: {error}") from error


def _imported(module: str, place: str) -> ModuleType:
    try:
        return import_module(module)
    except Exception as error:  # a plugin's own code may raise anything
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise BadInput(f"{place}: expected an installed module, there is no {error.name}") from error
        message = " ".join(str(error).split())
        raise BadInput(f"{place}: importing {module} failed: {type(error).__name__}: {message}") from error


def _checked(value: Any, kind: type[T], place: str) -> T:
    if not isinstance(value, kind):
        raise BadInput(f"{place}: expected a {kind.__name__}, found {type(value).__name__}")
    return value


@cache
def faults() -> Mapping[str, Fault]:
    """Every fault by name, in the order in which they heal."""
    loaded = [load("faults", name, Fault) for name in names("faults")]
    for name, fault in zip(names("faults"), loaded, strict=True):
        if fault.name != name:
            raise BadInput(f"entry points splitbrain.faults: {name} names the fault {fault.name!r}; expected one name")
    return {fault.name: fault for fault in sorted(loaded, key=lambda fault: (fault.heal_order, fault.name))}


def fault(name: str) -> Fault:
    """The fault of that name. Raises BadInput naming the known ones."""
    return load("faults", name, Fault)


@cache
def actions() -> Mapping[str, Fault]:
    """Each nemesis action's fault."""
    return by_action(faults().values())


@cache
def ops() -> NemesisOps:
    """What every nemesis operation does to a run."""
    return nemesis_ops(faults().values())


def workload(name: str) -> WorkloadKind:
    """The workload of that name. Raises BadInput naming the known ones."""
    return load("workloads", name, WorkloadKind)


def host_kind(name: str) -> HostKind:
    """The kind of host of that name. Raises BadInput naming the known ones."""
    return load("hosts", name, HostKind)


def check(name: str) -> Check:
    """The check of that name. Raises BadInput naming the known ones."""
    from checkers.framework.contract import Check  # only where checks are run: it imports Spark

    return load("checks", name, Check)


@cache
def scenarios() -> Mapping[str, Scenario]:
    """Every scenario by its id."""
    modules = [load("scenarios", name, tuple) for name in names("scenarios")]
    return {scenario.id: scenario for module in modules for scenario in module}


def scenario(identifier: str) -> Scenario:
    """The scenario of that id, in upper or lower case. Raises BadInput naming a similar one."""
    known = scenarios()
    found = known.get(identifier.upper())
    if found is None:
        expected = f"expected one of the {len(known)} ids that `splitbrain scenarios` lists"
        raise BadInput(f"scenario {shown(identifier)}: {expected}{did_you_mean(identifier, known)}")
    return found


@cache
def system(name: str) -> tuple[SystemKind, str]:
    """The system of a name, and its version: `kafka:4.3.1`, `reference`, or `module:NAME`.

    Raises BadInput for an unknown name, a module that cannot be imported, and a value that is not a SystemKind.
    """
    family, _, version = name.partition(":")
    if family in _entry_points("systems"):
        return load("systems", family, SystemKind), version
    hint = did_you_mean(family, names("systems"))
    if not version:
        raise BadInput(
            f"system {shown(name)}: expected {', '.join(names('systems'))}, kafka:VERSION, or MODULE:NAME{hint}"
        )
    if "" not in sys.path:
        sys.path.append("")  # a module in the current folder is found last, so that it hides none of ours
    place = f"system {shown(name)}"
    try:
        return _checked(_loaded(family, version, place), SystemKind, place), ""
    except BadInput as error:
        raise BadInput(f"{error}{hint}") from error
