"""No client load.

The active controller appends a NoOpRecord every metadata.max.idle.interval.ms, so the high watermark still shows
progress.
"""

from __future__ import annotations

from workloads.workload import Workload, WorkloadKind, WorkloadSpec


def idle(_spec: WorkloadSpec) -> Workload:
    """The workload without operations."""
    return Workload(name="idle", summary="no client load, the quorum alone", checks=())


IDLE = WorkloadKind("idle", "no client load", idle)
