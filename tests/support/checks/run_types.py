"""What the fixtures of these tests are, for signatures: conftest.py has the functions themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from checkers.run_checks import CheckResults
from harness.model import Finding

WriteRun = Callable[..., Path]
JudgeRun = Callable[..., CheckResults]
FindInRun = Callable[..., list[Finding]]
