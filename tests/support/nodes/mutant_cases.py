"""What the tests of mutants share: runs with and without a mutant, and logs."""

from __future__ import annotations

import pytest

from nodes.reference.core.mutants import Mutant
from nodes.wire.batches import Record, encode_batch


def with_and_without(mutant: Mutant) -> pytest.MarkDecorator:
    """The test runs without a mutant and with this one."""
    return pytest.mark.parametrize("mutant", [None, mutant])


def log_of(*epochs: int) -> bytes:
    """A log with one batch of one record for each of these epochs."""
    return b"".join(
        encode_batch([Record(None, b"value")], offset, epoch, timestamp_ms=0) for offset, epoch in enumerate(epochs)
    )
