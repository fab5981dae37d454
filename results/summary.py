"""The summary of a verdict as plain text, without colours, for terminals, files and mails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tabulate import tabulate

from harness.model import Finding
from results.latencies import PERCENTILES, latency_rows, others
from results.run_verdict import ExpectationResult, RunVerdict

FINDINGS_SHOWN = 10


def summary(run_verdict: RunVerdict) -> str:
    """The verdict, the expectations, the findings, the quantities and the command, in this order."""
    parts = [
        f"{run_verdict.name}: {run_verdict.verdict.value.upper()}. {run_verdict.summary}",
        _table(("expected", "measured", "met"), map(_expectation_row, run_verdict.expectations)),
        _findings(run_verdict.findings),
        _table(
            ("quantity", "value", "unit"), ((q.name, f"{q.value:g}", q.unit) for q in others(run_verdict.quantities))
        ),
        _table(("latency in ms", "when", *PERCENTILES), map(_latency_row, latency_rows(run_verdict.quantities))),
        f"Reproduce with: {run_verdict.command}" if run_verdict.command else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _table(headers: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    all_rows = list(rows)
    return tabulate(all_rows, headers=headers, disable_numparse=True, maxcolwidths=60) if all_rows else ""


def _expectation_row(expectation: ExpectationResult) -> tuple[str, ...]:
    met = {True: "yes", False: "NO", None: "unknown"}[expectation.met]
    return expectation.text, expectation.measured, met


def _latency_row(row: tuple[str, str, Mapping[str, float]]) -> tuple[str, ...]:
    f, when, percentiles = row
    return f, when, *(f"{percentiles[name]:.1f}" if name in percentiles else "" for name in PERCENTILES)


def _findings(findings: tuple[Finding, ...]) -> str:
    lines = [f"{finding.severity}: {finding.name}: {finding.message}" for finding in findings[:FINDINGS_SHOWN]]
    if len(findings) > FINDINGS_SHOWN:
        lines.append(f"and {len(findings) - FINDINGS_SHOWN} more findings in verdict.json")
    return "\n".join(lines)
