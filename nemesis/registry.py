"""Every fault there is, in the order in which healing undoes them: one line each.

The network comes first, packets before links, so that what follows can be proved over it; processes come late, as
whoever is down or paused can then start on a whole disk, with true clocks; what was asked of the membership can be seen
to its end only then.
"""

from __future__ import annotations

from collections.abc import Mapping

from nemesis.fault import Fault
from nemesis.faults import change, clock, disk, membership, packets, partition, process, rpc

FAULTS: tuple[Fault, ...] = (
    packets.FAULT,
    partition.FAULT,
    rpc.FAULT,
    clock.FAULT,
    disk.FAULT,
    process.PAUSE,
    process.KILL,
    change.FAULT,
    membership.FAULT,
)
BY_NAME: Mapping[str, Fault] = {fault.name: fault for fault in FAULTS}
BY_ACTION: Mapping[str, Fault] = {action: fault for fault in FAULTS for action in fault.actions}
