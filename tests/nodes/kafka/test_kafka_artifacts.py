"""Installing Kafka with a fake Maven, and the messages when it fails."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from harness.model import BadInput, EnvironmentFailure
from nodes.kafka.artifacts import Library
from nodes.kafka.maven import ArtifactMissing, _failure
from nodes.kafka.versions import KafkaVersion
from tests.support import SUPPORT

FAKE = SUPPORT / "nodes" / "fake_maven.py"
COMPLETE = ["3.2.0", "3.9.0", "3.9.1", "4.0.0", "4.1.0"]


class FakeMaven:
    """The only `mvn` in PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "fake_maven.py").write_text(FAKE.read_text())
        (folder / "mvn").write_text(f'#!/bin/sh\nexec {sys.executable} -S {folder}/fake_maven.py "$@"\n')
        (folder / "mvn").chmod(0o755)

    def publish(self, server: list[str], tools: list[str]) -> None:
        (self.folder / "published.json").write_text(json.dumps({"kafka_2.13": server, "kafka-tools": tools}))

    @property
    def calls(self) -> int:
        file = self.folder / "calls"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def maven(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    return FakeMaven(folder)


@pytest.fixture
def library(tmp_path):
    return Library(tmp_path / "cache" / "kafka")


def resolve(library, requested):
    return asyncio.run(library.resolve(requested))


def test_release_is_fetched_once_and_then_taken_from_the_cache(maven, library):
    maven.publish(COMPLETE, COMPLETE)
    first = resolve(library, "3.9.1")
    assert first.version == KafkaVersion(3, 9, 1)
    assert {"kafka_2.13-3.9.1.jar", "kafka-tools-3.9.1.jar"} <= {jar.name for jar in first.jars.iterdir()}
    assert maven.calls == 1
    assert resolve(library, "3.9.1").jars == first.jars
    assert maven.calls == 1


@pytest.mark.parametrize(
    ("requested", "expected"),
    [("newest", "4.1.0"), ("newest 4", "4.1.0"), ("newest 3", "3.9.1"), ("3.9", "3.9.1"), ("4.0", "4.0.0")],
)
def test_newest_is_the_highest_published_version_with_the_prefix(maven, library, requested, expected):
    maven.publish(COMPLETE, COMPLETE)
    assert str(resolve(library, requested).version) == expected


def test_newest_skips_an_incomplete_release_and_gives_the_reason(maven, library):
    maven.publish([*COMPLETE, "4.2.0"], COMPLETE)
    release = resolve(library, "newest 4")
    assert str(release.version) == "4.1.0"
    assert "skipped: 4.2.0" in release.why
    assert "kafka-tools:jar:4.2.0 is not published" in release.why
    assert not list(library.cache.glob("*4.2.0*"))


def test_newest_is_looked_up_once_while_the_result_is_valid(maven, library):
    maven.publish(COMPLETE, COMPLETE)
    resolve(library, "newest 4")
    calls = maven.calls
    assert str(resolve(library, "newest 4").version) == "4.1.0"
    assert maven.calls == calls


@pytest.mark.parametrize("requested", ["9.9.9", "9.9", "newest 9"])
def test_unpublished_version_is_bad_input(maven, library, requested):
    maven.publish(COMPLETE, COMPLETE)
    with pytest.raises(BadInput, match=r"expected a published") as raised:
        resolve(library, requested)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("requested", ["3.2.0", "three", "4.x", "newest x", "newest 4.", "", "3.9.1-rc1"])
def test_malformed_version_is_bad_input_without_a_call_of_maven(maven, library, requested):
    maven.publish(COMPLETE, COMPLETE)
    with pytest.raises(BadInput, match="Kafka version"):
        resolve(library, requested)
    assert maven.calls == 0


def test_incomplete_release_is_a_failure_of_the_environment(maven, library):
    maven.publish(["4.2.0"], COMPLETE)
    with pytest.raises(EnvironmentFailure, match=r"Kafka 4\.2\.0 is not completely published"):
        resolve(library, "4.2.0")


@pytest.mark.parametrize("requested", ["3.9.1", "newest"])
def test_message_without_maven_names_the_package(tmp_path, monkeypatch, library, requested):
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="apt-get install -y maven"):
        resolve(library, requested)


@pytest.mark.parametrize("requested", ["3.9.1", "newest"])
@pytest.mark.usefixtures("maven")
def test_without_network_nothing_is_left_in_the_cache(library, requested):
    with pytest.raises(EnvironmentFailure, match="cannot reach Maven's repositories; set KAFKA_HOME"):
        resolve(library, requested)
    assert not library.cache.exists() or not list(library.cache.iterdir())


@pytest.mark.usefixtures("maven")
def test_without_network_newest_is_the_newest_installed_release(tmp_path, library, monkeypatch):
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-4.1.0.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    release = resolve(library, "newest 4")
    assert str(release.version) == "4.1.0"
    assert release.why.startswith("4.1.0 is the newest on this machine; fetching Kafka: cannot reach")
    with pytest.raises(EnvironmentFailure, match="cannot reach"):
        resolve(library, "newest 3")


def test_release_in_kafka_home_is_used(tmp_path, maven, library, monkeypatch):
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-3.8.1.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    release = resolve(library, "3.8.1")
    assert (release.jars, maven.calls) == (tmp_path / "libs", 0)
    assert "KAFKA_HOME" in release.why


def test_message_for_a_kafka_home_without_kafka_names_its_path(tmp_path, library, monkeypatch):
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match=rf"KAFKA_HOME={tmp_path}: expected an unpacked Kafka release"):
        library.installed()


def test_multi_line_errors_of_newer_maven_releases_are_parsed():
    failure = _failure(
        "[ERROR] Failed to execute goal on project resolve: Could not resolve dependencies for project x:y:1\n"
        "[ERROR] dependency: org.apache.kafka:kafka-tools:jar:4.2.0 (compile)\n"
        "[ERROR] \tCould not find artifact org.apache.kafka:kafka-tools:jar:4.2.0 in central (https://repository.example)\n"
    )
    assert isinstance(failure, ArtifactMissing)
    assert "org.apache.kafka:kafka-tools:jar:4.2.0 is not published" in str(failure)


def test_unknown_error_of_maven_is_quoted():
    assert str(_failure("[ERROR] The POM is invalid\n")) == "fetching Kafka: Maven failed: The POM is invalid"
