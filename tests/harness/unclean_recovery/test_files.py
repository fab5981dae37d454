"""The file that is created, and the file that says how to connect."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from harness.model import BadInput
from harness.unclean_recovery.access import AccessSettings
from harness.unclean_recovery.client_config import settings_of
from harness.unclean_recovery.files import create, refuse_existing
from nodes.wire.sasl import Plain
from tests.support.bad_input import FILES, assert_is_read_or_refused

JAAS = 'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="al" password="se";'
SASL = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{JAAS}"


def test_file_is_created_whole_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "leaders.json"
    refuse_existing(path)
    create(path, "text\n")
    assert path.read_text() == "text\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["file", "folder", "link to nothing"])
def test_existing_file_is_never_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "leaders.json"
    {"file": path.touch, "folder": path.mkdir, "link to nothing": lambda: path.symlink_to("no")}[kind]()
    for attempt in (lambda: refuse_existing(path), lambda: create(path, "text")):
        with pytest.raises(BadInput, match=r"leaders\.json: expected a new file, found an existing one"):
            attempt()
    assert list(tmp_path.iterdir()) == [path]
    assert kind != "file" or path.read_text() == ""


def test_a_file_without_a_folder_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="in an existing folder"):
        refuse_existing(tmp_path / "no" / "leaders.json")


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match="can be created: no space left on device"):
        create(tmp_path / "leaders.json", "text")
    assert list(tmp_path.iterdir()) == []


CONFIGS: dict[str, tuple[str, AccessSettings]] = {
    "empty": ("", AccessSettings()),
    "comments": ("# a\n! b\n\n  # c\n", AccessSettings()),
    "no security": ("security.protocol = PLAINTEXT", AccessSettings()),
    "credentials": (SASL, AccessSettings(credentials=Plain("al", "se"))),
    "continued lines": (SASL.replace(" required", " \\\n   required"), AccessSettings(credentials=Plain("al", "se"))),
    "escaped characters": (SASL.replace('"se"', r'"s\"e\\"'), AccessSettings(credentials=Plain("al", 's"e\\'))),
    "the other order": (
        SASL.replace('username="al" password="se"', 'password="se" username="al"'),
        AccessSettings(credentials=Plain("al", "se")),
    ),
    "times": (
        "request.timeout.ms: 5\nretry.backoff.ms 6\nretry.backoff.max.ms=7",
        AccessSettings(request_timeout_ms=5, backoff_ms=6, backoff_ms_max=7),
    ),
    "keys of other clients": ("client.id=x\nacks=all", AccessSettings()),
}


@pytest.mark.parametrize(("text", "expected"), CONFIGS.values(), ids=CONFIGS)
def test_client_config_is_read(tmp_path: Path, text: str, expected: Any) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    assert settings_of(path) == expected


BAD = {
    "TLS": ("security.protocol=SSL", "security.protocol: expected PLAINTEXT or SASL_PLAINTEXT, found 'SSL'"),
    "a trust store": ("ssl.truststore.location=/x", "ssl.truststore.location: expected one of security.protocol, sasl"),
    "another mechanism": (SASL.replace("=PLAIN\n", "=GSSAPI\n"), "sasl.mechanism: expected PLAIN, found 'GSSAPI'"),
    "no mechanism": (SASL.replace("sasl.mechanism=PLAIN\n", ""), "sasl.mechanism: expected PLAIN, found 'GSSAPI'"),
    "no password": (SASL.replace(' password="se"', ""), "sasl.jaas.config: expected PlainLoginModule required"),
    "no semicolon": (SASL[:-1], "sasl.jaas.config: expected PlainLoginModule required"),
    "no login": (SASL.partition("\nsasl.jaas")[0], "sasl.jaas.config: expected PlainLoginModule required"),
    "no number": ("request.timeout.ms=soon", "request.timeout.ms: expected a number of milliseconds from 1 on, found"),
    "no time": ("retry.backoff.ms=0", "retry.backoff.ms: expected a number of milliseconds from 1 on, found '0'"),
    "no key": ("a=b\n=x", "line 2: expected key=value"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_client_config_that_would_be_ignored_is_refused_without_its_password(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        settings_of(path)
    assert str(refused.value).startswith(f"{path}: {message}")
    assert '"se"' not in str(refused.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES)
def test_any_client_config_is_read_or_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(content)
    assert_is_read_or_refused(lambda: settings_of(path))


def test_password_is_not_part_of_a_representation() -> None:
    assert "secret" not in repr(AccessSettings(credentials=Plain("alice", "secret")))
