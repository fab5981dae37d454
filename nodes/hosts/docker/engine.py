"""Docker's engine: its client, its errors in one line, and the removal of a run's containers and networks.

Contains what concerns the engine as a whole; nodes.hosts.docker.hosts creates the nodes. Every container and network of
a run carries the run's label; `heal` removes those and nothing else.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound

from harness.model import BadInput, EnvironmentFailure

LABEL = "splitbrain"
LABEL_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
REMOVAL_SECONDS = 30.0
ANSWER_SECONDS = 300
"""How long the engine may be silent within a response: longer than any command that runs on a host."""
DEFAULT_ENGINE = "unix:///var/run/docker.sock"
START_ENGINE = "as root: apt-get install -y docker.io, or set DOCKER_HOST to the engine's socket"


@contextmanager
def engine() -> Iterator[docker.DockerClient]:
    """A client of the engine that DOCKER_HOST names. Raises EnvironmentFailure if it does not respond."""
    client = None
    try:
        client = docker.from_env(timeout=ANSWER_SECONDS)
        client.ping()
    except (DockerException, OSError) as error:
        if client is not None:
            client.close()
        address = os.environ.get("DOCKER_HOST", DEFAULT_ENGINE)
        raise EnvironmentFailure(f"connecting to Docker's engine: no response at {address}; {START_ENGINE}") from error
    try:
        yield client
    finally:
        client.close()


@contextmanager
def attempting(what: str) -> Iterator[None]:
    """Report an error of the engine within the block in one line that starts with what was attempted."""
    try:
        yield
    except APIError as error:
        raise EnvironmentFailure(f"{what}: Docker's engine reports: {_one_line(error.explanation or error)}") from error
    except (DockerException, OSError) as error:
        raise EnvironmentFailure(f"{what}: calling Docker's engine: {_one_line(error)}") from error


def check_label(label: str) -> str:
    """The label, if it is valid. Raises BadInput."""
    if not LABEL_PATTERN.fullmatch(label):
        raise BadInput(f"a run's label: expected letters, digits, '.', '_' and '-', got {label!r}")
    return label


def heal(label: str) -> None:
    """Remove every container and network of a run; does nothing if there is none. Raises EnvironmentFailure."""
    check_label(label)
    with engine() as client:
        remove(client, label)


def remove(client: docker.DockerClient, label: str) -> None:
    """Remove every container and network with this label; returns when they are gone."""
    labelled: Any = {"label": f"{LABEL}={label}"}
    with attempting(f"removing the containers and networks of {label}"):
        deadline = time.monotonic() + REMOVAL_SECONDS
        while containers := client.api.containers(all=True, filters=labelled):
            if time.monotonic() > deadline:
                raise EnvironmentFailure(f"removing {label}'s containers: still there after {REMOVAL_SECONDS:g} s")
            for container in containers:
                _remove_container(client, container["Id"])
        for network in client.api.networks(filters=labelled):
            client.api.remove_network(network["Id"])


def _remove_container(client: docker.DockerClient, container: str) -> None:
    """Kill and remove a container. If the engine is already removing it because its lease ended, wait for that."""
    try:
        client.api.remove_container(container, force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:
            raise
        _await_removal(client, container)


def _await_removal(client: docker.DockerClient, container: str) -> None:
    try:
        client.api.wait(container, timeout=REMOVAL_SECONDS, condition="removed")
    except NotFound:
        return


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
