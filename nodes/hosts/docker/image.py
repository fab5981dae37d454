"""The image of the nodes' containers: built once from the Dockerfile beside this file, then found by its tag.

The base image is the controller's own distribution. It is pulled from a registry or, if none responds, built on this
machine by debootstrap and imported. The tag is a digest of base and Dockerfile, so a change to either builds a new
image.

    tag = ensure_image(client, report=print)
"""

from __future__ import annotations

import hashlib
import io
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import APIError, BuildError, ImageNotFound

from harness.model import EnvironmentFailure
from nodes.hosts.commands import last_line
from nodes.hosts.docker.engine import attempting

DOCKERFILE = Path(__file__).with_name("Dockerfile")
BOOTSTRAP_SECONDS = 900.0
INSTALL_BOOTSTRAP = "as root: apt-get install -y debootstrap, or let the engine reach a registry"

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Base:
    """A distribution, as registries name it (debian, 12) and as its package archive names it (bookworm)."""

    name: str
    version: str
    suite: str

    @property
    def image(self) -> str:
        """The image's name in the registry."""
        return f"{self.name}:{self.version}"

    @property
    def local_image(self) -> str:
        """The name of the image that is built by debootstrap."""
        return f"splitbrain-base:{self.name}-{self.version}"

    @staticmethod
    def of_this_machine() -> Base:
        """This machine's distribution if it is Debian or Ubuntu, else Debian 12."""
        try:
            release = platform.freedesktop_os_release()
        except OSError:
            release = {}
        if release.get("ID") in ("debian", "ubuntu") and "VERSION_ID" in release and "VERSION_CODENAME" in release:
            return Base(release["ID"], release["VERSION_ID"], release["VERSION_CODENAME"])
        return Base("debian", "12", "bookworm")


def ensure_image(client: docker.DockerClient, report: Report) -> str:
    """The tag of the nodes' image, which is built first if the engine does not have it. Raises EnvironmentFailure."""
    base = Base.of_this_machine()
    tag = _tag(base)
    if not _has(client, tag):
        source = _ensure_base(client, base, report)
        report(f"building the nodes' image {tag} from {source}")
        _build(client, tag, source)
    return tag


def _tag(base: Base) -> str:
    content = f"{base.image}\n{DOCKERFILE.read_text()}"
    return f"splitbrain-node:{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def _has(client: docker.DockerClient, image: str) -> bool:
    with attempting(f"looking for the image {image}"):
        try:
            client.images.get(image)
        except ImageNotFound:
            return False
    return True


def _ensure_base(client: docker.DockerClient, base: Base, report: Report) -> str:
    """The base image: present already, pulled, or built from the distribution's packages."""
    for image in (base.image, base.local_image):
        if _has(client, image):
            return image
    report(f"pulling {base.image}")
    try:
        client.images.pull(base.name, tag=base.version)
    except APIError as error:
        report(f"pulling {base.image} failed ({error.explanation}); building it with debootstrap")
        _import(client, base)
        return base.local_image
    return base.image


def _build(client: docker.DockerClient, tag: str, source: str) -> None:
    """Build on the machine's own network, because the engine's networks may not reach the outside."""
    dockerfile = io.BytesIO(DOCKERFILE.read_bytes())
    with attempting(f"building {tag}"):
        try:
            client.images.build(
                fileobj=dockerfile,
                tag=tag,
                buildargs={"BASE": source},
                network_mode="host",
                rm=True,
                timeout=int(BOOTSTRAP_SECONDS),
            )
        except BuildError as error:
            lines = [line["stream"].strip() for line in error.build_log if line.get("stream", "").strip()]
            last = lines[-1] if lines else "no output"
            raise EnvironmentFailure(f"building {tag}: {error.msg}; last output: {last}") from error


def _import(client: docker.DockerClient, base: Base) -> None:
    if shutil.which("debootstrap") is None:
        raise EnvironmentFailure(f"building {base.local_image}: debootstrap is not on the path; {INSTALL_BOOTSTRAP}")
    with tempfile.TemporaryDirectory(prefix="splitbrain-base-") as scratch:
        root, archive = Path(scratch, "root"), Path(scratch, "root.tar")
        _command(["debootstrap", "--variant=minbase", base.suite, str(root)])
        _command(["tar", "--numeric-owner", "--directory", str(root), "--create", "--file", str(archive), "."])
        with attempting(f"importing {base.local_image}"):
            name, _, version = base.local_image.partition(":")
            client.api.import_image_from_file(str(archive), repository=name, tag=version)


def _command(argv: Sequence[str]) -> None:
    try:
        result = subprocess.run(argv, capture_output=True, timeout=BOOTSTRAP_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(f"running {argv[0]}: timed out after {BOOTSTRAP_SECONDS:g} s") from error
    if result.returncode:
        raise EnvironmentFailure(
            f"running {argv[0]}: exit {result.returncode}: {last_line(result.stderr or result.stdout)}"
        )
