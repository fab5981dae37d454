"""The undo journal: synced before the fault, readable after any crash, safe to heal repeatedly."""

from __future__ import annotations

import json
import os

import pytest

from harness.model.hosts import UndoRecord
from nemesis.journal import UndoJournal, pending

CUT = UndoRecord("cut", "heal-links", {"nodes": [1, 2, 3]})
KILL = UndoRecord("kill", "start", {"nodes": [2]})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def test_faults_are_undone_latest_first(path):
    journal = UndoJournal(path)
    journal.record(CUT)
    journal.record(KILL)
    assert pending(path) == [KILL, CUT]


def test_a_healed_fault_is_not_pending(path):
    journal = UndoJournal(path)
    first = journal.record(CUT)
    journal.record(KILL)
    journal.healed(first)
    assert pending(path) == [KILL]


def test_an_entry_is_synced_before_record_returns(path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(path.read_text()), real(descriptor)))
    UndoJournal(path).record(KILL)
    assert [json.loads(text) for text in synced] == [
        {"id": 1, "fault": "kill", "kind": "start", "details": {"nodes": [2]}}
    ]


@pytest.mark.parametrize("kept", [0, 1, 30], ids=["no byte", "one byte", "half"])
def test_a_torn_last_line_is_a_fault_that_was_never_injected(path, kept):
    journal = UndoJournal(path)
    journal.record(CUT)
    whole = path.read_bytes()
    journal.record(KILL)
    path.write_bytes(path.read_bytes()[: len(whole) + kept])
    assert pending(path) == [CUT]


def test_a_journal_with_a_torn_line_can_be_healed_and_continued(path):
    UndoJournal(path).record(CUT)
    path.write_bytes(path.read_bytes() + b'{"id": 2, "fau')
    UndoJournal(path).all_healed()
    assert pending(path) == []
    assert UndoJournal(path).record(KILL) == 2
    assert pending(path) == [KILL]


def test_healing_again_is_harmless(path):
    journal = UndoJournal(path)
    identifier = journal.record(CUT)
    journal.healed(identifier)
    journal.healed(identifier)
    journal.all_healed()
    UndoJournal(path).all_healed()
    assert pending(path) == []


def test_a_reopened_journal_does_not_reuse_ids(path):
    UndoJournal(path).record(CUT)
    assert UndoJournal(path).record(KILL) == 2
    assert pending(path) == [KILL, CUT]


def test_a_missing_journal_has_nothing_to_undo(path):
    assert pending(path) == []
    UndoJournal(path).all_healed()
    assert not path.exists()
