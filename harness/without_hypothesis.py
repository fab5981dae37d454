"""Imports kio without hypothesis, for every process that imports a package of ours that uses kio.

kio imports hypothesis where it is installed, only to offer strategies for its types, and hypothesis then creates a
folder `.hypothesis` wherever the user works. This module imports the part of kio that asks, and answers that hypothesis
is missing; afterwards hypothesis can be imported as before. Where it is imported already, as in our tests, nothing
changes.

This module is on the level of harness.model. nodes and workloads import it first.
"""

from __future__ import annotations

import importlib
import sys

ASKING = "kio.static.primitive"


def import_kio() -> None:
    """Import the part of kio that would import hypothesis."""
    if "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # Python's own mark for a module that is missing
    try:
        importlib.import_module(ASKING)
    finally:
        del sys.modules["hypothesis"]


import_kio()
