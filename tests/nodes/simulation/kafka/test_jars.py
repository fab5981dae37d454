"""The cache of jars and classes, without Maven: what is missing is said in one line, and processes do not collide."""

from __future__ import annotations

import asyncio
import shutil
import zipfile
from pathlib import Path

import pytest

from harness.model import BadInput, EnvironmentFailure
from nodes.kafka.artifacts import Library, Release
from nodes.kafka.maven import ArtifactMissing, Coordinate, Maven
from nodes.kafka.versions import KafkaVersion
from nodes.simulation.kafka import jars
from nodes.simulation.kafka.jars import RaftLibrary, RaftRelease


@pytest.fixture
def release(tmp_path: Path) -> RaftRelease:
    libs = tmp_path / "raft" / "4.3.1" / "libs"
    libs.mkdir(parents=True)
    return RaftRelease(KafkaVersion(4, 3, 1), libs)


def fake_javac(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The only javac in PATH; it runs with the directory of the classes as $target."""
    folder.mkdir(exist_ok=True)
    loop = 'while [ "$1" != -d ]; do shift; done; target=$2'
    (folder / "javac").write_text(f"#!/bin/sh\n{loop}\n{script}\n")
    (folder / "javac").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_a_missing_compiler_is_one_line_with_the_package_that_has_it(release, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure) as raised:
        release.compiled()
    assert str(raised.value) == (
        "simulating Kafka: javac is not installed; as root: apt-get install -y openjdk-17-jdk-headless"
    )
    assert [path.name for path in release.jars.parent.iterdir()] == ["libs"]


def test_classes_are_compiled_once_per_source(release, monkeypatch, tmp_path):
    fake_javac(tmp_path / "bin", monkeypatch, f'echo run >> {tmp_path}/calls; touch "$target/Driver.class"')
    first = release.compiled()
    assert release.compiled() == first
    assert {path.name for path in first.glob("*/Driver.class")} == {"Driver.class"}
    monkeypatch.setattr(jars, "DYNAMIC_SOURCES", tmp_path / "none")
    assert release.compiled() != first
    assert (tmp_path / "calls").read_text() == "run\n" * 4  # what releases share, and what is compiled with each


def test_a_process_that_compiles_at_the_same_time_may_finish_first(release, monkeypatch, tmp_path):
    fake_javac(tmp_path / "bin", monkeypatch, 'touch "$target/Driver.class"')
    final = release.compiled()
    content = sorted(path.name for path in final.iterdir())
    rival = f'mkdir -p "{final}/simulation" "{final}/release"; touch "$target/Driver.class"'
    shutil.rmtree(final)
    fake_javac(tmp_path / "bin", monkeypatch, rival)
    assert release.compiled() == final
    assert sorted(path.name for path in final.iterdir()) == content
    assert sorted(path.name for path in release.jars.parent.iterdir()) == [final.name, "libs"]


def test_a_driver_that_does_not_fit_names_the_first_error(release, monkeypatch, tmp_path):
    fake_javac(tmp_path / "bin", monkeypatch, 'echo "Node.java:3: error: cannot find symbol" >&2; exit 1')
    with pytest.raises(EnvironmentFailure, match=r"with this release: Node.java:3: error: cannot find symbol$"):
        release.compiled()


def test_releases_before_3_9_compile_without_the_sources_for_dynamic_voters(release):
    older = RaftRelease(KafkaVersion(3, 8, 1), release.jars)
    names = [{path.name for path in each.sources()["release"]} for each in (release, older)]
    assert names[0] - names[1] == {"DynamicVoters.java"}


def test_the_newest_release_is_the_newest_one_with_test_jars(monkeypatch, tmp_path):
    asked: list[str] = []

    async def copy_jars(_maven: Maven, roots: list[Coordinate], target: Path) -> None:
        asked.append(roots[0].version)
        if roots[0].version == "4.4.0":
            raise ArtifactMissing("org.apache.kafka:kafka-raft:jar:test:4.4.0 is not published")
        target.mkdir()

    async def resolve(_library: Library, _requested: str) -> Release:
        return Release(KafkaVersion(4, 4, 0), tmp_path, "the newest")

    async def published(_library: Library, _requested: str) -> list[KafkaVersion]:
        return [KafkaVersion(4, 4, 0), KafkaVersion(4, 3, 1), KafkaVersion(4, 3, 0)]

    monkeypatch.setattr(Maven, "copy_jars", copy_jars)
    monkeypatch.setattr(Library, "resolve", resolve)
    monkeypatch.setattr(Library, "published", published)
    library = RaftLibrary(tmp_path / "raft")
    for _ in range(2):
        assert asyncio.run(library.resolve("newest")).version == KafkaVersion(4, 3, 1)
    assert asked == ["4.4.0", "4.3.1"]
    with pytest.raises(
        BadInput, match=r"Kafka version '4.4.0': expected a release with test jars; .* is not published"
    ):
        asyncio.run(library.resolve("4.4.0"))


def test_a_release_before_3_7_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match=r"Kafka version '3.6.2': expected 3.7.0 or later for a simulation"):
        asyncio.run(RaftLibrary(tmp_path / "raft").resolve("3.6.2"))


def test_the_jars_of_kafka_s_own_tests_are_requested_by_their_classifier(tmp_path, monkeypatch):
    requested: list[Coordinate] = []

    async def copy_jars(_maven: Maven, roots: list[Coordinate], target: Path) -> None:
        requested.extend(roots)
        target.mkdir()
        zipfile.ZipFile(target / "kafka-raft.jar", "w").close()

    monkeypatch.setattr(Maven, "copy_jars", copy_jars)
    release = asyncio.run(RaftLibrary(tmp_path / "raft").resolve("4.3.1"))
    assert [path.name for path in release.jars.iterdir()] == ["kafka-raft.jar"]
    assert {(each.artifact, each.classifier) for each in requested} == {
        (artifact, classifier)
        for artifact in ("kafka-raft", "kafka-server-common", "kafka-clients")
        for classifier in ("", "test")
    }
    asyncio.run(RaftLibrary(tmp_path / "raft").resolve("4.3.1"))
    assert len(requested) == 6
