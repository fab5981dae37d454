"""The quantities of a run that are compared, and how large a change must be to matter.

Contains values. harness.comparing.compare uses them with statistics, which take a second to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PRIMARY: Final[Mapping[str, float]] = {
    "recover_ms": 500,
    "commit_gap_ms": 500,
    "unavailable_ms_max": 500,
    "no_leader_ms": 500,
    "epochs_burned": 2,
}
"""The quantities that are compared, less is better, and the smallest change that matters."""
