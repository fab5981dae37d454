"""What brokers do with partitions, section by section of KIP-279; the commands are in transcript_runner's docstring.

pytest tests/nodes/reference/partitions/test_transcripts.py --rewrite    rewrites them; read the diff
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nodes.reference.partitions.transcript_runner import PartitionTranscript
from tests.nodes.reference.test_transcripts import replay

FILES = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_brokers_do_what_the_transcript_says(path: Path, request: pytest.FixtureRequest) -> None:
    replayed = replay(path.read_text(), PartitionTranscript)
    if request.config.getoption("--rewrite"):
        path.write_text(replayed)
        pytest.skip(f"rewrote {path.name}")
    assert replayed == path.read_text()
