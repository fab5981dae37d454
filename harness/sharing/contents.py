"""What an archive of a run contains: the files that judging and reports need, under these names and no others.

Not in it: nodes' data directories, undo journals and process ids, which mean something on the machine of the run alone,
and reports, which are rendered again.
"""

from __future__ import annotations

import re
from typing import Final

FORMAT: Final = 1
MANIFEST: Final = "bundle.json"
SUFFIX: Final = ".splitbrain.tar.gz"
TEXTS: Final = (
    r"(plan|system|status|origin|coverage)\.json",
    r"request\.toml",
    r"(controller|watchdog)\.log",
    r"nodes/n\d{1,3}/server\.log",
)
TABLES: Final = r"(history|observations|batches|records|rpcs)/[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}\.parquet"
SIDE: Final = r"((bad|good)-\d{1,4}/)?"
_TEXT: Final = re.compile(rf"{SIDE}({'|'.join(TEXTS)})")
_TABLE: Final = re.compile(SIDE + TABLES)

FILES_MAX: Final = 50_000
BYTES_MAX: Final = 8 << 30
TEXT_BYTES_MAX: Final = 1 << 30
"""Of one text file; logs are the largest."""


def is_text(name: str) -> bool:
    """Whether this is the name of a text file of a run, from its directory."""
    return _TEXT.fullmatch(name) is not None


def is_table(name: str) -> bool:
    """Whether this is the name of a chunk of a run's tables."""
    return _TABLE.fullmatch(name) is not None
