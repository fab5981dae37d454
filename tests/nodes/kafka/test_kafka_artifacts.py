"""Fetching Kafka from a Maven with a made-up repository, and what a user is told when it cannot be had."""

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
WHOLE = ["3.2.0", "3.9.0", "3.9.1", "4.0.0", "4.1.0"]


class FakeMaven:
    """The only mvn on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "fake_maven.py").write_text(FAKE.read_text())
        (folder / "mvn").write_text(f'#!/bin/sh\nexec {sys.executable} -S {folder}/fake_maven.py "$@"\n')
        (folder / "mvn").chmod(0o755)

    def publish(self, server: list[str], tools: list[str]) -> None:
        (self.folder / "published.json").write_text(json.dumps({"kafka_2.13": server, "kafka-tools": tools}))

    @property
    def calls(self) -> int:
        noted = self.folder / "calls"
        return len(noted.read_text().splitlines()) if noted.exists() else 0


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


def resolve(library, wanted):
    return asyncio.run(library.resolve(wanted))


def test_a_release_is_fetched_once_and_taken_from_the_cache_then(maven, library):
    maven.publish(WHOLE, WHOLE)
    first = resolve(library, "3.9.1")
    assert first.version == KafkaVersion(3, 9, 1)
    assert {"kafka_2.13-3.9.1.jar", "kafka-tools-3.9.1.jar"} <= {jar.name for jar in first.jars.iterdir()}
    assert maven.calls == 1
    assert resolve(library, "3.9.1").jars == first.jars
    assert maven.calls == 1


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("newest", "4.1.0"), ("newest 4", "4.1.0"), ("newest 3", "3.9.1"), ("3.9", "3.9.1"), ("4.0", "4.0.0")],
)
def test_newest_is_the_highest_published_version_of_its_line(maven, library, wanted, expected):
    maven.publish(WHOLE, WHOLE)
    assert str(resolve(library, wanted).version) == expected


def test_newest_passes_over_a_half_published_release_and_says_so(maven, library):
    maven.publish([*WHOLE, "4.2.0"], WHOLE)
    release = resolve(library, "newest 4")
    assert str(release.version) == "4.1.0"
    assert "passed over: 4.2.0" in release.why
    assert "kafka-tools:jar:4.2.0 is not published" in release.why
    assert not list(library.cache.glob("*4.2.0*"))


def test_newest_is_asked_once_while_the_answer_is_fresh(maven, library):
    maven.publish(WHOLE, WHOLE)
    resolve(library, "newest 4")
    asked = maven.calls
    assert str(resolve(library, "newest 4").version) == "4.1.0"
    assert maven.calls == asked


@pytest.mark.parametrize("wanted", ["9.9.9", "9.9", "newest 9"])
def test_a_version_that_nobody_published_is_bad_input(maven, library, wanted):
    maven.publish(WHOLE, WHOLE)
    with pytest.raises(BadInput, match=r"expected a published") as raised:
        resolve(library, wanted)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("wanted", ["3.2.0", "three", "4.x", "newest x", "newest 4.", "", "3.9.1-rc1"])
def test_what_is_no_version_is_bad_input_before_anything_is_asked(maven, library, wanted):
    maven.publish(WHOLE, WHOLE)
    with pytest.raises(BadInput, match="Kafka version"):
        resolve(library, wanted)
    assert maven.calls == 0


def test_a_release_asked_for_by_number_that_is_half_published_is_no_fault_of_the_user(maven, library):
    maven.publish(["4.2.0"], WHOLE)
    with pytest.raises(EnvironmentFailure, match=r"Kafka 4\.2\.0 is half published"):
        resolve(library, "4.2.0")


@pytest.mark.parametrize("wanted", ["3.9.1", "newest"])
def test_without_maven_the_package_is_named(tmp_path, monkeypatch, library, wanted):
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="apt-get install -y maven"):
        resolve(library, wanted)


@pytest.mark.parametrize("wanted", ["3.9.1", "newest"])
@pytest.mark.usefixtures("maven")
def test_without_network_the_user_is_told_so_and_nothing_is_left_in_the_cache(library, wanted):
    with pytest.raises(EnvironmentFailure, match="no network to Maven's repositories; give KAFKA_HOME"):
        resolve(library, wanted)
    assert not library.cache.exists() or not list(library.cache.iterdir())


@pytest.mark.usefixtures("maven")
def test_without_network_newest_is_the_newest_that_is_here_and_says_so(tmp_path, library, monkeypatch):
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-4.1.0.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    release = resolve(library, "newest 4")
    assert str(release.version) == "4.1.0"
    assert release.why.startswith("4.1.0 is the newest on this machine; fetching Kafka: no network")
    with pytest.raises(EnvironmentFailure, match="no network"):
        resolve(library, "newest 3")


def test_kafka_home_is_a_release_like_any_other(tmp_path, maven, library, monkeypatch):
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-3.8.1.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    release = resolve(library, "3.8.1")
    assert (release.jars, maven.calls) == (tmp_path / "libs", 0)
    assert "KAFKA_HOME" in release.why


def test_a_kafka_home_without_kafka_is_told_with_its_path(tmp_path, library, monkeypatch):
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match=rf"KAFKA_HOME={tmp_path}: expected an unpacked Kafka release"):
        library.installed()


def test_maven_s_newer_words_over_several_lines_are_read_too():
    failure = _failure(
        "[ERROR] Failed to execute goal on project resolve: Could not resolve dependencies for project x:y:1\n"
        "[ERROR] dependency: org.apache.kafka:kafka-tools:jar:4.2.0 (compile)\n"
        "[ERROR] \tCould not find artifact org.apache.kafka:kafka-tools:jar:4.2.0 in central (https://repository.example)\n"
    )
    assert isinstance(failure, ArtifactMissing)
    assert "org.apache.kafka:kafka-tools:jar:4.2.0 is not published" in str(failure)


def test_words_of_maven_that_mean_nothing_to_us_are_passed_on():
    assert str(_failure("[ERROR] The POM is cursed\n")) == "fetching Kafka: Maven says: The POM is cursed"
