"""What a user asks of `splitbrain explore`."""

from __future__ import annotations

from pydantic import Field, field_validator

from harness.planning.plan import SEED, Target, system_name


class ExplorationRequest(Target):
    """The system and its hosts, and how long to explore. switches apply to every run."""

    time_limit_seconds: float = Field(
        default=300.0, gt=0, le=86_400, alias="time_limit", description="Time for runs and their checks in seconds."
    )
    run_seconds: float = Field(default=25.0, ge=5, le=3_600, description="Duration of one run's faults in seconds.")
    at_once: int | None = Field(
        default=None, ge=1, le=64, description="Runs at a time; as many as the machine allows if not given."
    )
    keep_going: bool = Field(
        default=False, description="Explore on after a run that shows a broken guarantee, or fails."
    )
    seed: int | None = Field(default=None, ge=0, description=SEED)

    _system_exists = field_validator("system")(system_name)
