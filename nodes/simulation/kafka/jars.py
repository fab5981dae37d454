"""The jars of a Kafka release that its Raft client needs, and the driver compiled against them; both are cached.

    release = await RaftLibrary.default().resolve("4.3.1")     # RaftRelease(version=…, jars=…)
    classes = release.compiled()                               # the driver's classes, compiled once per source

The jars with the classifier `test` have the log and the quorum state in memory of Kafka's own tests. A server's log is
part of the Raft client from 4.3 on; before, it needs the jars of the server. Releases from 3.7 on are supported.
Everything is written into a temporary directory and renamed, so two processes may do it at once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.model import BadInput, EnvironmentFailure
from nodes.kafka.artifacts import GROUP, Library, publish
from nodes.kafka.maven import ArtifactMissing, Coordinate, Maven
from nodes.kafka.versions import KafkaVersion

ARTIFACTS = ("kafka-raft", "kafka-server-common", "kafka-clients")
OLDEST = KafkaVersion(3, 7, 0)
LOG_IN_RAFT = KafkaVersion(4, 3, 0)
SOURCES = Path(__file__).parent / "driver"
RELEASE_SOURCES = SOURCES / "release"
DYNAMIC_SOURCES = RELEASE_SOURCES / "dynamic"
SIMULATION, RELEASE = "simulation", "release"
"""The directories of compiled classes: those that all releases share, and those compiled with a release."""
JDK_PACKAGE = "openjdk-17-jdk-headless"
COMPILE_SECONDS = 300
INCOMPLETE = "incomplete"
"""The file that marks a release without test jars."""
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class RaftRelease:
    """The jars of one release on this machine, beside which the driver's classes are cached.

    server_jars: those of the server, if a simulation needs them.
    """

    version: KafkaVersion
    jars: Path
    server_jars: Path | None = None

    @property
    def class_path(self) -> str:
        """The class path of the code that runs this release: its classes, which compiled() has made, and its jars."""
        server = "" if self.server_jars is None else f":{self.server_jars}/*"
        return f"{self.compiled() / RELEASE}:{self.jars}/*{server}"

    @property
    def driver_class_path(self) -> str:
        """The class path of the driver, which has nothing of any release but a library for JSON."""
        return ":".join(map(str, [self.compiled() / SIMULATION, *sorted(self.jars.glob("jackson-*.jar"))]))

    def sources(self) -> Mapping[str, Sequence[Path]]:
        """The driver's sources for this release, by the directory of their classes."""
        dynamic = sorted(DYNAMIC_SOURCES.glob("*.java")) if self.version.has_dynamic_quorum else []
        return {
            SIMULATION: sorted(SOURCES.glob("*.java")),
            RELEASE: [*sorted(RELEASE_SOURCES.glob("*.java")), *dynamic],
        }

    def compiled(self) -> Path:
        """The directory of the driver's classes; compiles them if they are not in the cache.

        Raises EnvironmentFailure if there is no compiler, or if the driver does not fit the release.
        """
        sources = self.sources()
        content = b"".join(source.read_bytes() for part in sources.values() for source in part)
        final = self.jars.parent / f"classes-{hashlib.sha256(content).hexdigest()[:16]}"
        if final.exists():
            return final
        with tempfile.TemporaryDirectory(prefix=".classes-", dir=self.jars.parent) as directory:
            partial = Path(directory, "classes")
            for name, part in sources.items():
                (partial / name).mkdir(parents=True)
                self._compile(part, partial / name, f"{partial / SIMULATION}:{self.jars}/*")
            publish(partial, final)
        return final

    def _compile(self, sources: Sequence[Path], target: Path, class_path: str) -> None:
        argv = ["javac", "-nowarn", "-proc:none", "-d", str(target), "-cp", class_path, *map(str, sources)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
        except FileNotFoundError as error:
            raise EnvironmentFailure(
                f"simulating Kafka: javac is not installed; as root: apt-get install -y {JDK_PACKAGE}"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFailure(f"simulating Kafka: javac did not finish within {COMPILE_SECONDS} s") from error
        if done.returncode:
            reason = next((line for line in done.stderr.splitlines() if ": error: " in line), "no reason given")
            raise EnvironmentFailure(
                f"simulating Kafka {self.version}: the driver does not compile with this release: {reason}"
            )


@dataclass(frozen=True, slots=True)
class RaftLibrary:
    """The releases in a cache directory."""

    cache: Path
    report: Callable[[str], None] = lambda _line: None

    @staticmethod
    def default(report: Callable[[str], None] = lambda _line: None) -> RaftLibrary:
        """The library in the same cache as Kafka's servers."""
        return RaftLibrary(Library.default().cache.parent / "raft", report)

    async def resolve(self, requested: str) -> RaftRelease:
        """The release for a version as nodes.kafka.artifacts.Library takes it: 4.3.1, 4.3, newest.

        The newest is the newest one with test jars, which may be published later than the servers. Raises BadInput for
        a version that is not published or not supported, EnvironmentFailure if it cannot be fetched.
        """
        if re.fullmatch(r"\d+\.\d+\.\d+", requested):
            try:
                return await self._release(KafkaVersion.parse(requested))
            except ArtifactMissing as error:
                raise BadInput(f"Kafka version {requested!r}: expected a release with test jars; {error}") from error
        servers = self._servers()
        newest = (await servers.resolve(requested)).version
        if not self._is_incomplete(newest):
            with suppress(ArtifactMissing):
                return await self._release(newest)
        for version in await servers.published(requested):
            if version < newest:
                with suppress(ArtifactMissing):
                    return await self._release(version)
        raise BadInput(f"Kafka version {requested!r}: expected a release with test jars, found none")

    async def with_server_log(self, release: RaftRelease) -> RaftRelease:
        """The release with what a server's log needs. Raises as resolve does."""
        if release.version >= LOG_IN_RAFT:
            return release
        server = await self._servers().resolve(str(release.version))
        return replace(release, server_jars=server.jars)

    def _servers(self) -> Library:
        return Library(self.cache.parent / "kafka", self.report)

    async def _release(self, version: KafkaVersion) -> RaftRelease:
        if version < OLDEST:
            raise BadInput(f"Kafka version {str(version)!r}: expected {OLDEST} or later for a simulation")
        final = self.cache / str(version) / "libs"
        if not final.exists():
            await self._fetch(version, final)
        return RaftRelease(version, final)

    def _is_incomplete(self, version: KafkaVersion) -> bool:
        """Whether the release had no test jars when it was last fetched, at most a day ago."""
        mark = self.cache / str(version) / INCOMPLETE
        return mark.exists() and time.time() - mark.stat().st_mtime < DAY_SECONDS

    async def _fetch(self, version: KafkaVersion, final: Path) -> None:
        self.report(f"fetching the Raft client of Kafka {version}")
        final.parent.mkdir(parents=True, exist_ok=True)
        roots = [
            Coordinate(GROUP, artifact, str(version), classifier=classifier)
            for artifact in ARTIFACTS
            for classifier in ("", "test")
        ]
        partial = final.parent / f".libs.{os.getpid()}"
        try:
            await Maven(self.cache.parent / "maven").copy_jars(roots, partial)
            publish(partial, final)
        except ArtifactMissing:
            (final.parent / INCOMPLETE).touch()
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
