"""No client load: the quorum alone, with the records that an idle leader appends by itself."""

from __future__ import annotations

from workloads.workload import Workload, WorkloadKind, WorkloadSpec, refuse_options


def idle(spec: WorkloadSpec) -> Workload:
    """The workload without operations."""
    refuse_options("idle", spec)
    return Workload(name="idle", summary="no client load, the quorum alone", checks=())


IDLE = WorkloadKind("idle", "no client load", idle)
