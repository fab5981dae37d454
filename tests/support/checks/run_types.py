"""The types of the fixtures in conftest.py, for signatures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from checkers.run_checks import CheckResults
from harness.model import Finding

WriteRun = Callable[..., Path]
JudgeRun = Callable[..., CheckResults]
FindInRun = Callable[..., list[Finding]]
