"""The image that nodes' containers are made of: built once from the Dockerfile beside this file, then found by its tag.

The Dockerfile's base is the controller's own distribution: pulled, or where no registry answers, made on this machine
by debootstrap and imported. The tag is a digest of the recipe, so that a changed recipe makes a new image.

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
from nodes.hosts.docker.engine import attempting

DOCKERFILE = Path(__file__).with_name("Dockerfile")
BOOTSTRAP_SECONDS = 900.0
INSTALL_BOOTSTRAP = "as root: apt-get install -y debootstrap, or let the engine reach a registry"

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Base:
    """A distribution as registries name it (debian, 12) and as its archive does (bookworm)."""

    name: str
    version: str
    suite: str

    @property
    def image(self) -> str:
        """The registry's image."""
        return f"{self.name}:{self.version}"

    @property
    def local_image(self) -> str:
        """What the image is called that debootstrap's files were imported as."""
        return f"splitbrain-base:{self.name}-{self.version}"

    @staticmethod
    def of_this_machine() -> Base:
        """This machine's distribution where it is Debian or Ubuntu, else Debian 12."""
        try:
            known = platform.freedesktop_os_release()
        except OSError:
            known = {}
        if known.get("ID") in ("debian", "ubuntu") and "VERSION_ID" in known and "VERSION_CODENAME" in known:
            return Base(known["ID"], known["VERSION_ID"], known["VERSION_CODENAME"])
        return Base("debian", "12", "bookworm")


def ensure_image(client: docker.DockerClient, report: Report) -> str:
    """The tag of the nodes' image, made first where the engine does not have it. Raises EnvironmentFailure."""
    base = Base.of_this_machine()
    tag = _tag(base)
    if not _has(client, tag):
        source = _ensure_base(client, base, report)
        report(f"building the nodes' image {tag} from {source}")
        _build(client, tag, source)
    return tag


def _tag(base: Base) -> str:
    recipe = f"{base.image}\n{DOCKERFILE.read_text()}"
    return f"splitbrain-node:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def _has(client: docker.DockerClient, image: str) -> bool:
    with attempting(f"looking for the image {image}"):
        try:
            client.images.get(image)
        except ImageNotFound:
            return False
    return True


def _ensure_base(client: docker.DockerClient, base: Base, report: Report) -> str:
    """The image to build on: one that is here, or pulled, or made from the distribution's packages."""
    for image in (base.image, base.local_image):
        if _has(client, image):
            return image
    report(f"pulling {base.image}")
    try:
        client.images.pull(base.name, tag=base.version)
    except APIError as error:
        report(f"no registry gives {base.image} ({error.explanation}); making it by debootstrap")
        _import(client, base)
        return base.local_image
    return base.image


def _build(client: docker.DockerClient, tag: str, source: str) -> None:
    """On the machine's own network: an engine may be run without a network of its own that leads outside."""
    recipe = io.BytesIO(DOCKERFILE.read_bytes())
    with attempting(f"building {tag}"):
        try:
            client.images.build(
                fileobj=recipe,
                tag=tag,
                buildargs={"BASE": source},
                network_mode="host",
                rm=True,
                timeout=int(BOOTSTRAP_SECONDS),
            )
        except BuildError as error:
            lines = [line["stream"].strip() for line in error.build_log if line.get("stream", "").strip()]
            said = lines[-1] if lines else "nothing"
            raise EnvironmentFailure(f"building {tag}: {error.msg}; the last it said: {said}") from error


def _import(client: docker.DockerClient, base: Base) -> None:
    if shutil.which("debootstrap") is None:
        raise EnvironmentFailure(f"making {base.local_image}: no debootstrap on the path; {INSTALL_BOOTSTRAP}")
    with tempfile.TemporaryDirectory(prefix="splitbrain-base-") as scratch:
        root, archive = Path(scratch, "root"), Path(scratch, "root.tar")
        _command(["debootstrap", "--variant=minbase", base.suite, str(root)])
        _command(["tar", "--numeric-owner", "--directory", str(root), "--create", "--file", str(archive), "."])
        with attempting(f"importing {base.local_image}"):
            name, _, version = base.local_image.partition(":")
            client.api.import_image_from_file(str(archive), repository=name, tag=version)


def _command(argv: Sequence[str]) -> None:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, timeout=BOOTSTRAP_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(f"running {argv[0]}: not done after {BOOTSTRAP_SECONDS:g} s") from error
    if result.returncode:
        lines = (result.stderr or result.stdout).strip().splitlines() or ["it wrote nothing"]
        raise EnvironmentFailure(f"running {argv[0]}: exit {result.returncode}: {lines[-1]}")
