"""Kafka's jars: installed once per version into a cache, or taken from the user's KAFKA_HOME.

A release is complete if both its server and its command-line tools resolve. *newest* is the newest complete release,
because the artifacts of a release are not published at the same time. Each release carries the reason for its choice.

    library = Library(cache)
    release = await library.resolve("newest 4")      # Release(version=…, jars=…, why="…")
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.model import BadInput, EnvironmentFailure
from nodes.kafka.maven import ArtifactMissing, Coordinate, Maven
from nodes.kafka.versions import OLDEST, KafkaVersion

GROUP = "org.apache.kafka"
SERVER, TOOLS, TOOLS_API = "kafka_2.13", "kafka-tools", "kafka-tools-api"
RELOAD4J = (Coordinate("ch.qos.reload4j", "reload4j", "1.2.25"), Coordinate("org.slf4j", "slf4j-reload4j", "1.7.36"))
LOG4J2 = (
    Coordinate("org.apache.logging.log4j", "log4j-core", "2.25.2"),
    Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.2"),
    Coordinate("org.apache.logging.log4j", "log4j-1.2-api", "2.25.2"),
)
NEWEST_VALID_SECONDS = 7 * 86400


@dataclass(frozen=True, slots=True)
class Release:
    """A complete release on this machine: its directory of jars, and why it was chosen."""

    version: KafkaVersion
    jars: Path
    why: str


@dataclass(frozen=True, slots=True)
class Library:
    """The releases in a cache directory."""

    cache: Path
    report: Callable[[str], None] = lambda _line: None

    @staticmethod
    def default(report: Callable[[str], None] = lambda _line: None) -> Library:
        """The library below XDG_CACHE_HOME, or ~/.cache."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Library(Path(base, "splitbrain", "kafka"), report)

    def installed(self) -> list[Release]:
        """The installed releases, oldest first, including that of KAFKA_HOME."""
        cached = [
            Release(KafkaVersion.parse(path.name), path / "libs", (path / "whole").read_text().strip())
            for path in self.cache.glob("*.*.*")
            if (path / "whole").exists()
        ]
        home = _kafka_home()
        return sorted([*cached, *([home] if home else [])], key=lambda release: release.version)

    async def resolve(self, requested: str) -> Release:
        """The release for '3.9.1', '3.9' (its newest patch), 'newest' or 'newest 4'; installs it if necessary.

        Raises BadInput for a version that is not published, EnvironmentFailure if it cannot be installed.
        """
        if requested == "newest" or requested.startswith("newest "):
            return await self._newest(_prefix_of(requested))
        if re.fullmatch(r"[0-9]+\.[0-9]+", requested):
            return await self._newest(requested)
        version = KafkaVersion.parse(requested)
        installed = next((release for release in self.installed() if release.version == version), None)
        try:
            return installed or await self._install(version, f"{version} was requested")
        except ArtifactMissing as error:
            if f":{SERVER}:" in str(error):
                raise BadInput(f"Kafka version {requested!r}: expected a published release; {error}") from error
            raise EnvironmentFailure(f"Kafka {version} is not completely published: {error}") from error

    async def published(self, requested: str) -> list[KafkaVersion]:
        """The published versions that '3.9', 'newest' or 'newest 4' may mean, newest first, complete or not.

        Raises EnvironmentFailure if no repository can be reached.
        """
        return await self._candidates(_prefix_of(requested) if requested.startswith("newest") else requested)

    async def _newest(self, prefix: str) -> Release:
        cached = self._cached_newest(prefix)
        if cached:
            return cached
        self.report(f"looking up the newest complete release of Kafka {prefix}".rstrip())
        try:
            candidates = await self._candidates(prefix)
        except EnvironmentFailure as unreachable:
            return self._newest_installed(prefix, unreachable)
        skipped: list[str] = []
        for version in candidates:
            try:
                release = await self._install(version, _why(version, prefix, skipped))
            except ArtifactMissing as error:
                skipped.append(f"{version}: {error}")
                continue
            self._cache_newest(prefix, release)
            return release
        raise BadInput(f"Kafka version {prefix!r}: expected a published release, found no complete one")

    def _newest_installed(self, prefix: str, unreachable: EnvironmentFailure) -> Release:
        """Without a repository: the newest installed release, with that reason; raises if there is none."""
        matching = [release for release in self.installed() if _begins_with(release.version, prefix)]
        if not matching:
            raise unreachable
        newest = matching[-1]
        return replace(newest, why=f"{newest.version} is the newest on this machine; {unreachable}")

    async def _candidates(self, prefix: str) -> list[KafkaVersion]:
        """Published versions that begin with prefix, newest first, including incomplete releases."""
        published = await self._maven().published_versions(GROUP, SERVER)
        numbers = [tuple(map(int, text.split("."))) for text in published if re.fullmatch(r"\d+\.\d+\.\d+", text)]
        versions = [KafkaVersion(*number) for number in numbers if number[:2] >= OLDEST]
        return sorted((version for version in versions if _begins_with(version, prefix)), reverse=True)

    async def _install(self, version: KafkaVersion, why: str) -> Release:
        """Install into a temporary directory, and rename it when the release is complete."""
        final = self.cache / str(version)
        partial = self.cache / f".{version}.{os.getpid()}"
        self.report(f"fetching Kafka {version}")
        roots = [Coordinate(GROUP, name, str(version)) for name in (SERVER, TOOLS)]
        try:
            await self._maven().copy_jars(
                [*roots, *(LOG4J2 if version.logs_with_log4j2 else RELOAD4J)], partial / "libs"
            )
            (partial / "whole").write_text(why + "\n")
            publish(partial, final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return Release(version, final / "libs", why)

    def _maven(self) -> Maven:
        return Maven(self.cache.parent / "maven")

    def _cached_newest(self, prefix: str) -> Release | None:
        """The result of the last look-up, while it is valid and its jars exist."""
        file = self.cache / f"newest-{prefix or 'any'}.json"
        if not file.exists():
            return None
        content = json.loads(file.read_text())
        jars = self.cache / content["version"] / "libs"
        if not jars.exists() or time.time() - content["asked_at"] > NEWEST_VALID_SECONDS:
            return None
        return Release(KafkaVersion.parse(content["version"]), jars, content["why"])

    def _cache_newest(self, prefix: str, release: Release) -> None:
        file = self.cache / f"newest-{prefix or 'any'}.json"
        file.write_text(json.dumps({"version": str(release.version), "why": release.why, "asked_at": time.time()}))


def _prefix_of(requested: str) -> str:
    """The version prefix in 'newest 4'; empty for 'newest'."""
    prefix = requested.removeprefix("newest").strip()
    if not re.fullmatch(r"([0-9]+(\.[0-9]+)?)?", prefix):
        raise BadInput(f"Kafka version {requested!r}: expected newest, 'newest MAJOR' or 'newest MAJOR.MINOR'")
    return prefix


def _begins_with(version: KafkaVersion, prefix: str) -> bool:
    return f"{version}.".startswith(f"{prefix}." if prefix else "")


def _why(version: KafkaVersion, prefix: str, skipped: list[str]) -> str:
    reason = f"{version} is the newest complete release{f' of {prefix}' if prefix else ''}"
    return f"{reason}; skipped: {'; '.join(skipped)}" if skipped else reason


def _kafka_home() -> Release | None:
    """The release in KAFKA_HOME, if the variable is set."""
    home = os.environ.get("KAFKA_HOME")
    if not home:
        return None
    jars = Path(home, "libs")
    names = [path.name for path in jars.glob("kafka_2.*.jar")]
    match = next((m for name in names if (m := re.fullmatch(r"kafka_2\.\d+-(\d+\.\d+\.\d+)\.jar", name))), None)
    if not match:
        raise EnvironmentFailure(f"KAFKA_HOME={home}: expected an unpacked Kafka release with libs/kafka_2.13-*.jar")
    return Release(KafkaVersion.parse(match.group(1)), jars, f"KAFKA_HOME={home}")


def publish(partial: Path, final: Path) -> None:
    """Rename a complete directory, unless another process has already done so."""
    try:
        partial.rename(final)
    except OSError:
        if not final.exists():
            raise
