"""The nearest known name to one that was not found, for messages about names that users type.

    did_you_mean("regster", ("register", "log"))        # "; did you mean register?"

Contains the choice and its words. Does not contain names.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

SIMILARITY_MIN = 0.6
"""difflib's ratio from which two names count as near: two letters of three are the same, in the same order."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a message, "; did you mean X?"; "" if none is near.

    Case does not count. A name with dots is also found by its last part, e.g. reference.pre_vote by pre_vote.
    """
    spellings: dict[str, str] = {}
    for name in known:
        spellings.setdefault(name.rpartition(".")[2].casefold(), name)
        spellings[name.casefold()] = name
    near = get_close_matches(word.casefold(), spellings, n=1, cutoff=SIMILARITY_MIN)
    return f"; did you mean {spellings[near[0]]}?" if near else ""
