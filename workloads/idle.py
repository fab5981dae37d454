"""No client load: the quorum alone, with the records that an idle leader appends by itself.

The active controller writes a NoOpRecord every metadata.max.idle.interval.ms, so that the high watermark shows
progress.
"""

from __future__ import annotations

from workloads.workload import Workload

IDLE = Workload(name="idle", summary="no client load, the quorum alone", checks=("nemesis", "quorum", "divergence"))
