"""No client load. The active controller appends a NoOpRecord every metadata.max.idle.interval.ms, so the high watermark
still shows progress."""

from __future__ import annotations

from workloads.workload import Workload

IDLE = Workload(name="idle", summary="no client load", checks=("nemesis", "quorum", "divergence"))
