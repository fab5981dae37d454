"""A reference node as the third voter of a static quorum of real Kafka."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.hosts.sandbox import Privilege, enclose
from nodes.kafka.artifacts import Library
from tests.support import SUPPORT


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.timeout(600)
def test_reference_voter_follows_replicates_and_votes_in_a_quorum_of_real_kafka(tmp_path: Path) -> None:
    release = asyncio.run(Library.default().resolve("newest 4"))
    script = SUPPORT / "nodes" / "third_voter.py"
    argv = enclose([sys.executable, str(script), str(tmp_path), str(release.version)], Privilege.detect())
    run = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    observed = json.loads(run.stdout)
    assert observed == dict.fromkeys(("followed", "replicated", "rejoined", "elected", "committed"), True)
