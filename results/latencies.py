"""The latencies among a run's quantities, as a table: one row per operation and period, one column per percentile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from harness.model import Quantity

PERCENTILES: Final = ("p50", "p95", "p99", "max")
LATENCY: Final = re.compile(
    rf"latency_(?P<f>.+?)(?P<when>_in_faults|_out_of_faults)?_ms_(?P<percentile>{'|'.join(PERCENTILES)})"
)
"""Their names in checkers/runs/availability.py."""


def latency_rows(quantities: Sequence[Quantity]) -> list[tuple[str, str, dict[str, float]]]:
    """(operation, when, its percentiles in ms)."""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for quantity in quantities:
        if match := LATENCY.fullmatch(quantity.name):
            when = (match["when"] or "_at all times").removeprefix("_").replace("_", " ")
            rows.setdefault((match["f"], when), {})[match["percentile"]] = quantity.value
    return [(*name, percentiles) for name, percentiles in sorted(rows.items())]


def is_latency(quantity: Quantity) -> bool:
    """Whether a quantity belongs in this table."""
    return LATENCY.fullmatch(quantity.name) is not None
