"""Suggestions for misspelled names: `; did you mean register?`.

Contains the wording and how near a name has to be. The caller's message says what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

SIMILARITY_MIN: Final = 0.6
"""difflib's ratio; it admits one error in a name of three letters, and two in one of six."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: "; did you mean X?", or "" if no known word is similar."""
    by_lower = {name.lower(): name for name in known}
    similar = get_close_matches(word.lower(), by_lower, n=1, cutoff=SIMILARITY_MIN)
    return f"; did you mean {by_lower[similar[0]]}?" if similar else ""
