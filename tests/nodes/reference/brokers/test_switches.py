"""The switches of brokers: which values are refused, and what is said then."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from nodes.reference.system import check_switches

USERS = "expected NAME:PASSWORD,…, got "


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("reference.users", "alice", f"{USERS}'alice'"),
        ("reference.users", "alice:", f"{USERS}'alice:'"),
        ("reference.users", "alice:a:b", f"{USERS}'alice:a:b'"),
        ("reference.users", "", f"{USERS}''"),
        ("unclean.recovery.strategy", "Quick", "expected None or Balanced or Aggressive"),
        ("unclean.recovery.timeout.ms", "0", "expected a number of at least 1, got '0'"),
        ("group.initial.rebalance.delay.ms", "-1", "expected a number of at least 0, got '-1'"),
        ("offsets.topic.num.partitions", "many", "expected a number of at least 1, got 'many'"),
        ("reference.last_written_epochs", "1", "expected true or false, got '1'"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_switches({name: value})
    assert str(refused.value) == f"--switch: {name}: {reason}"


@pytest.mark.parametrize(
    ("name", "value"), [("reference.users", "alice:a,bob:b"), ("group.initial.rebalance.delay.ms", "0")]
)
def test_a_value_that_fits_is_accepted(name: str, value: str) -> None:
    check_switches({name: value})
