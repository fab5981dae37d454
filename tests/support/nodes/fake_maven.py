"""Behaves like Maven towards the code that fetches Kafka, for a made-up repository of two artifacts.

    mvn … -Dmaven.repo.local=REPOSITORY -f POM dependency:copy-dependencies -DoutputDirectory=TARGET

What is published stands in `published.json` beside this script, as {artifact: [version, …]}; without that file there is
no network. Each call is noted in `calls`. A version range is answered with the newest version, and leaves the
repository's metadata in the local one, as Maven does.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
CENTRAL = "central (https://repository.example)"
OLD_STYLE = (
    "[ERROR] Failed to execute goal on project resolve: Could not resolve dependencies for project x:resolve:jar:1: {}"
)


def option(name: str) -> str:
    return next(word.partition("=")[2] for word in sys.argv if word.startswith(f"-D{name}="))


def refuse(words: str) -> None:
    print(OLD_STYLE.format(words))
    print("[ERROR] -> [Help 1]")
    sys.exit(1)


def resolve(artifact: str, version: str, published: dict) -> str:
    """The version that Maven would take of an artifact that may be published."""
    if version.startswith("["):
        if not published:
            refuse(f"No versions available for org.apache.kafka:{artifact}:jar:{version} within specified range")
        write_metadata(artifact, published[artifact])
        return published[artifact][-1]
    if not published:
        refuse(f"Could not transfer artifact org.apache.kafka:{artifact}:pom:{version} from/to {CENTRAL}: unknown host")
    if version not in published.get(artifact, [version]):
        refuse(f"Could not find artifact org.apache.kafka:{artifact}:jar:{version} in {CENTRAL}")
    return version


def write_metadata(artifact: str, versions: list) -> None:
    folder = Path(option("maven.repo.local"), "org", "apache", "kafka", artifact)
    folder.mkdir(parents=True, exist_ok=True)
    listed = "".join(f"<version>{version}</version>" for version in versions)
    (folder / "maven-metadata-central.xml").write_text(f"<metadata><versions>{listed}</versions></metadata>")


def main() -> None:
    with (HERE / "calls").open("a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\n")
    listed = HERE / "published.json"
    published = json.loads(listed.read_text()) if listed.exists() else {}
    pom = Path(sys.argv[sys.argv.index("-f") + 1]).read_text()
    target = Path(option("outputDirectory"))
    target.mkdir(parents=True, exist_ok=True)
    for artifact, asked in re.findall(r"<artifactId>([^<*]+)</artifactId><version>([^<]+)</version>", pom)[1:]:
        (target / f"{artifact}-{resolve(artifact, asked, published)}.jar").write_text("jar")


main()
