"""A fake `mvn` for the code that installs Kafka, with a repository of two artifacts.

    mvn … -Dmaven.repo.local=REPOSITORY -f POM dependency:copy-dependencies -DoutputDirectory=TARGET

`published.json` beside this script lists the repository's contents as {artifact: [version, …]}; without that file there
is no network. Each call is appended to `calls`. A version range resolves to the newest version and writes the
repository's metadata to the local repository, as Maven does.
"""

import json
import re
import sys
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).parent
CENTRAL = "central (https://repository.example)"
ERROR = (
    "[ERROR] Failed to execute goal on project resolve: Could not resolve dependencies for project x:resolve:jar:1: {}"
)


def option(name: str) -> str:
    """The value of the command line's -Dname."""
    return next(argument.partition("=")[2] for argument in sys.argv if argument.startswith(f"-D{name}="))


def fail(reason: str) -> NoReturn:
    """Exit as Maven does when it cannot resolve a dependency."""
    print(ERROR.format(reason))
    print("[ERROR] -> [Help 1]")
    sys.exit(1)


def resolve(artifact: str, version: str, published: dict[str, list[str]]) -> str:
    """The version of an artifact that a version or version range resolves to."""
    if version.startswith("["):
        if not published:
            fail(f"No versions available for org.apache.kafka:{artifact}:jar:{version} within specified range")
        write_metadata(artifact, published[artifact])
        return published[artifact][-1]
    if not published:
        fail(f"Could not transfer artifact org.apache.kafka:{artifact}:pom:{version} from/to {CENTRAL}: unknown host")
    if version not in published.get(artifact, [version]):
        fail(f"Could not find artifact org.apache.kafka:{artifact}:jar:{version} in {CENTRAL}")
    return version


def write_metadata(artifact: str, versions: list[str]) -> None:
    """Write the artifact's metadata to the local repository."""
    folder = Path(option("maven.repo.local"), "org", "apache", "kafka", artifact)
    folder.mkdir(parents=True, exist_ok=True)
    elements = "".join(f"<version>{version}</version>" for version in versions)
    (folder / "maven-metadata-central.xml").write_text(f"<metadata><versions>{elements}</versions></metadata>")


def main() -> None:
    """Copy one empty jar per resolved dependency to the output directory."""
    with (HERE / "calls").open("a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\n")
    repository = HERE / "published.json"
    published = json.loads(repository.read_text()) if repository.exists() else {}
    pom = Path(sys.argv[sys.argv.index("-f") + 1]).read_text()
    target = Path(option("outputDirectory"))
    target.mkdir(parents=True, exist_ok=True)
    for artifact, version in re.findall(r"<artifactId>([^<*]+)</artifactId><version>([^<]+)</version>", pom)[1:]:
        (target / f"{artifact}-{resolve(artifact, version, published)}.jar").write_text("jar")


main()
