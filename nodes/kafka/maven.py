"""Asks Maven for artifacts: which versions there are, and all the jars of one of them.

Maven is called on generated POMs, with a local repository of our own below the cache, so that what it learned can be
read back; the user's settings, mirrors included, apply. What goes wrong is turned into one line.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from harness.model import EnvironmentFailure

RESOLVE_SECONDS = 900
COPY_GOAL = "dependency:copy-dependencies"


@dataclass(frozen=True, slots=True)
class Coordinate:
    """group:artifact:version, where version may be a range; alone leaves out what it depends on."""

    group: str
    artifact: str
    version: str
    alone: bool = False


class ArtifactMissing(EnvironmentFailure):
    """A repository answered, and does not have an artifact."""


@dataclass(frozen=True, slots=True)
class Maven:
    """The mvn command with its local repository."""

    repository: Path

    async def copy_jars(self, roots: Sequence[Coordinate], target: Path) -> None:
        """Put the runtime jars of roots and of all they depend on into target.

        Raises ArtifactMissing where one is not published, EnvironmentFailure where Maven or the network is missing.
        """
        with tempfile.TemporaryDirectory(prefix="splitbrain-pom-") as directory:
            pom = Path(directory, "pom.xml")
            pom.write_text(_pom(roots))
            code, output = await self._run("-f", str(pom), COPY_GOAL, f"-DoutputDirectory={target}")
        if code:
            raise _failure(output)

    async def published_versions(self, group: str, artifact: str) -> set[str]:
        """Every version that the repositories' metadata lists.

        Resolving a version range makes Maven fetch the metadata, which it keeps in its local repository.
        """
        with tempfile.TemporaryDirectory(prefix="splitbrain-jars-") as target:
            await self.copy_jars([Coordinate(group, artifact, "[0,)", alone=True)], Path(target))
        metadata = Path(self.repository, *group.split("."), artifact).glob("maven-metadata*.xml")
        return {version for path in metadata for version in re.findall(r"<version>([^<]+)</version>", path.read_text())}

    async def _run(self, *arguments: str) -> tuple[int, str]:
        fixed = ["-B", "-q", "-U", f"-Dmaven.repo.local={self.repository}", "-DincludeScope=runtime"]
        try:
            process = await asyncio.create_subprocess_exec(
                *["mvn", *fixed, *arguments],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except FileNotFoundError as error:
            raise EnvironmentFailure(
                "fetching Kafka: mvn is not installed; as root: apt-get install -y maven, or set KAFKA_HOME"
            ) from error
        try:
            output, _ = await asyncio.wait_for(process.communicate(), RESOLVE_SECONDS)
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise EnvironmentFailure(f"fetching Kafka: Maven was not done after {RESOLVE_SECONDS} s") from error
        return process.returncode or 0, output.decode(errors="replace")


def _pom(roots: Sequence[Coordinate]) -> str:
    dependencies = "".join(_dependency(root) for root in roots)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>splitbrain</groupId><artifactId>resolve</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _dependency(root: Coordinate) -> str:
    everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    exclusions = f"<exclusions>{everything}</exclusions>" if root.alone else ""
    return (
        f"<dependency><groupId>{escape(root.group)}</groupId><artifactId>{escape(root.artifact)}</artifactId>"
        f"<version>{escape(root.version)}</version>{exclusions}</dependency>"
    )


def _failure(output: str) -> EnvironmentFailure:
    """What Maven's error lines mean; older releases say it all in the first, newer ones in the lines after it."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = [line.removeprefix("[ERROR] ").strip() for line in plain.splitlines() if "[ERROR]" in line]
    text = " ".join(lines) or "no reason given"
    missing = re.search(r"Could not find artifact (\S+)", text)
    if missing:
        return ArtifactMissing(f"fetching Kafka: {missing.group(1)} is not published")
    # Of a range that holds every version there is always one, so none means that no repository has answered.
    if re.search(r"Could not transfer|No versions available|offline mode", text):
        return EnvironmentFailure("fetching Kafka: no network to Maven's repositories; give KAFKA_HOME, or try later")
    return EnvironmentFailure(f"fetching Kafka: Maven says: {text[:300]}")
