"""Shared test support: values, fake capabilities, and scripts that tests run in sandboxes. Checked by mypy."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).parent
