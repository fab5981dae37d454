"""What a user asks of `splitbrain simulate`."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from harness.model import BadInput
from harness.planning.plan import SEED, system_name

HOSTS: Final = "simulation"
"""The kind of host of simulated runs."""


class SimulationRequest(BaseModel):
    """The system, and how many random runs to simulate. switches apply to every run."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)

    system: str = Field(default="reference", description="System to simulate: reference, kafka or kafka:VERSION.")
    switches: dict[str, str] = Field(
        default={}, alias="switch", description="NAME=VALUE for every node; can be repeated."
    )
    beside: Annotated[str, AfterValidator(system_name)] | None = Field(
        default=None, description="Release that some nodes of each run have instead, drawn with the run: kafka:VERSION."
    )
    upgrade_to: Annotated[str, AfterValidator(system_name)] | None = Field(
        default=None, description="Release that nodes change to, one after another, at drawn times: kafka:VERSION."
    )
    seeds: int = Field(default=1000, ge=1, le=100_000_000, description="Number of runs, each with a seed of its own.")
    seed: int | None = Field(default=None, ge=0, description=SEED)
    time_limit_seconds: float | None = Field(
        default=None, gt=0, alias="time_limit", description="Time for runs and their checks in seconds, if limited."
    )
    run_seconds: float = Field(
        default=8.0, ge=1, le=3_600, description="Duration of one run's faults in seconds of virtual time."
    )
    at_once: int | None = Field(
        default=None, ge=1, le=64, description="Runs at a time; one for each processor if not given."
    )
    keep_going: bool = Field(default=False, description="Go on after a run that shows a broken guarantee.")
    sample: float = Field(
        default=0.0, ge=0, le=1, description="Share of the other runs that is stored and checked on Spark, too."
    )

    timed: bool = Field(
        default=False, description="Draw faults and operations at fixed times: several times as many runs a minute."
    )

    compiled: bool = Field(
        default=False,
        description="Compile the reference system first (once, one to two minutes): about twice as many runs a minute.",
    )

    _system_exists = field_validator("system")(system_name)


def require_compilable(request: SimulationRequest) -> None:
    """Raise BadInput for --compiled with a system other than the reference."""
    if request.compiled and request.system != "reference":
        raise BadInput(f"--compiled: expected --system reference, found {request.system}")
