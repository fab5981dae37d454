"""Resolves artifacts with Maven: the published versions of an artifact, and its jars with all dependencies.

Maven runs on generated POMs with a separate local repository below the cache, whose metadata is read afterwards. The
user's settings, including mirrors, apply. Errors are reported in one line.
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
    """group:artifact:version, where version may be a range; transitive is whether to include its dependencies.

    classifier selects another jar of the artifact than its main one, e.g. test.
    """

    group: str
    artifact: str
    version: str
    transitive: bool = True
    classifier: str = ""


class ArtifactMissing(EnvironmentFailure):
    """The repositories do not have an artifact."""


@dataclass(frozen=True, slots=True)
class Maven:
    """The mvn command with its local repository."""

    repository: Path

    async def copy_jars(self, roots: Sequence[Coordinate], target: Path) -> None:
        """Copy the runtime jars of roots and of their dependencies to target.

        Raises ArtifactMissing if one is not published, EnvironmentFailure if Maven or the network is not available.
        """
        with tempfile.TemporaryDirectory(prefix="splitbrain-pom-") as directory:
            pom = Path(directory, "pom.xml")
            pom.write_text(_pom(roots))
            code, output = await self._run("-f", str(pom), COPY_GOAL, f"-DoutputDirectory={target}")
        if code:
            raise _failure(output)

    async def published_versions(self, group: str, artifact: str) -> set[str]:
        """All versions in the repositories' metadata.

        Maven fetches the metadata when it resolves a version range, and stores it in the local repository.
        """
        with tempfile.TemporaryDirectory(prefix="splitbrain-jars-") as target:
            await self.copy_jars([Coordinate(group, artifact, "[0,)", transitive=False)], Path(target))
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
            raise EnvironmentFailure(f"fetching Kafka: Maven did not finish within {RESOLVE_SECONDS} s") from error
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
    exclusions = "" if root.transitive else f"<exclusions>{everything}</exclusions>"
    classifier = f"<classifier>{escape(root.classifier)}</classifier>" if root.classifier else ""
    return (
        f"<dependency><groupId>{escape(root.group)}</groupId><artifactId>{escape(root.artifact)}</artifactId>"
        f"<version>{escape(root.version)}</version>{classifier}{exclusions}</dependency>"
    )


def _failure(output: str) -> EnvironmentFailure:
    """The error in Maven's output: in the first error line of older releases, in the following lines of newer ones."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = [line.removeprefix("[ERROR] ").strip() for line in plain.splitlines() if "[ERROR]" in line]
    text = " ".join(lines) or "no reason given"
    missing = re.search(r"Could not find artifact (\S+)", text)
    if missing:
        return ArtifactMissing(f"fetching Kafka: {missing.group(1)} is not published")
    # The range includes every version, so "No versions available" means that no repository was reachable.
    if re.search(r"Could not transfer|No versions available|offline mode", text):
        return EnvironmentFailure("fetching Kafka: cannot reach Maven's repositories; set KAFKA_HOME, or try later")
    return EnvironmentFailure(f"fetching Kafka: Maven failed: {text[:300]}")
