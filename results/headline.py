"""The headline of a verdict: what the reader of a run learns first, and whether that is good news.

A side of a scenario goes as documented or not, whatever its verdict: on the bad side a broken guarantee can be what was
expected. Every other run's headline is its verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.model import Verdict

SHOWN: Final = "anomaly shown, as expected"
NOT_SHOWN: Final = "anomaly not shown"
NOT_MEASURED: Final = "anomaly not measured"
UNEXPECTED: Final = "anomaly shown, not expected"

_TONES: Final[Mapping[str, Verdict]] = {
    SHOWN: Verdict.VALID,
    NOT_SHOWN: Verdict.INVALID,
    NOT_MEASURED: Verdict.UNKNOWN,
    UNEXPECTED: Verdict.INVALID,
}


def headline_of(side: str | None, verdict: Verdict, met: bool | None) -> str:
    """The headline of a run.

    side is that of its scenario, if any; verdict is the verdict without the findings that the side is expected to show;
    met is whether all of its expectations are met (None: unknown).
    """
    if side is None or verdict is not Verdict.VALID:
        return verdict.value
    if side == "bad":
        return {True: SHOWN, False: NOT_SHOWN, None: NOT_MEASURED}[met]
    return {True: verdict.value, False: UNEXPECTED, None: NOT_MEASURED}[met]


def tone_of(headline: str) -> Verdict:
    """The verdict whose colour a headline has."""
    return _TONES.get(headline) or Verdict(headline)
