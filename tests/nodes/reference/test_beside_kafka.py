"""Real Kafka judges the reference quorum: a reference node takes the third voter's seat of a real static quorum."""

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
def test_reference_voter_follows_carries_the_high_watermark_and_elects_a_real_leader(tmp_path: Path) -> None:
    release = asyncio.run(Library.default().resolve("newest 4"))
    script = SUPPORT / "nodes" / "third_seat.py"
    argv = enclose([sys.executable, str(script), str(tmp_path), str(release.version)], Privilege.detect())
    played = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert played.returncode == 0, played.stderr[-3000:]
    seen = json.loads(played.stdout)
    assert seen == dict.fromkeys(("followed", "carried", "rejoined", "elected", "commits"), True)
