"""Histories, corruptions and Spark helpers that the tests of the checks share."""

from __future__ import annotations

from typing import Any

from checkers.framework.contract import Check, JudgeSettings
from harness import plugins

CHECKS: dict[str, Check] = {name: plugins.check(name) for name in plugins.names("checks")}
"""Every installed check by name."""


def settings_with(**values: Any) -> JudgeSettings:
    """Settings that know what the nemesis's operations do."""
    return JudgeSettings(**{"ops": plugins.ops(), **values})
