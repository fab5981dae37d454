"""Copies of an operation."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from harness.model import Op


def test_an_operation_of_another_process_has_the_same_fields() -> None:
    recorded = Op("ok", "write", 3, "k", 7, 2, "an error", 5, 99)
    assert all(getattr(recorded, field.name) != field.default for field in fields(Op))
    copy = recorded.for_process(4)
    assert copy == replace(recorded, process=4, error=None, index=-1, time_ns=-1)
    with pytest.raises(FrozenInstanceError):
        copy.process = 5  # type: ignore[misc]
