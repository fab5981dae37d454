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
from importlib.util import find_spec

ASKING = "kio.static.primitive"


def import_kio() -> None:
    """Import the part of kio that would import hypothesis, if kio is installed; a node's host may do without it."""
    if "hypothesis" in sys.modules or find_spec("kio") is None:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # Python's own mark for a module that is missing
    try:
        importlib.import_module(ASKING)
    finally:
        del sys.modules["hypothesis"]


import_kio()
