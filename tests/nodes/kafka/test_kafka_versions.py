"""Kafka versions: their order and their capabilities."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from harness.model.quorum_states import KIP_595_RULES, KIP_996_RULES
from nodes.kafka.versions import KafkaVersion


def test_versions_are_ordered_numerically():
    texts = ["3.10.0", "3.9.1", "4.0.0", "3.9.10", "3.9.2"]
    assert [str(version) for version in sorted(map(KafkaVersion.parse, texts))] == [
        *("3.9.1", "3.9.2", "3.9.10", "3.10.0", "4.0.0")
    ]


CAPABILITIES = {
    # version: check quorum, admin clients at controllers, pre-vote, log4j 2, rules
    "3.3.0": (False, False, False, False, KIP_595_RULES),
    "3.6.2": (False, False, False, False, KIP_595_RULES),
    "3.7.0": (True, True, False, False, KIP_595_RULES),
    "3.9.2": (True, True, False, False, KIP_595_RULES),
    "4.0.0": (True, True, True, True, KIP_996_RULES),
    "4.3.1": (True, True, True, True, KIP_996_RULES),
}


@pytest.mark.parametrize(("text", "expected"), CAPABILITIES.items(), ids=CAPABILITIES)
def test_capabilities_of_a_version_match_the_kips(text, expected):
    version = KafkaVersion.parse(text)
    admin = version.controllers_answer_admin_clients
    rules = version.transition_rules
    assert (version.has_check_quorum, admin, version.has_pre_vote, version.logs_with_log4j2, rules) == expected


@pytest.mark.parametrize("text", ["3.2.3", "2.8.0", "0.0.0"])
def test_release_before_production_ready_kraft_is_rejected(text):
    with pytest.raises(BadInput, match=r"expected 3\.3\.0 or later"):
        KafkaVersion.parse(text)


@pytest.mark.parametrize("text", ["", "4", "4.0", "4.0.0.0", "v4.0.0", "4.0.0-rc1", " 4.0.0", "4.0.0\n", "\u0664.0.0"])
def test_malformed_version_is_rejected(text):
    with pytest.raises(BadInput, match=r"expected MAJOR\.MINOR\.PATCH"):
        KafkaVersion.parse(text)
