"""The sandbox of a run: namespaces that the kernel takes down, with all that is in them, when the controller is gone.

A run's controller works in network, mount, UTS and PID namespaces of its own. Node processes, bridges, rules and
mounts live inside, so that the death of the PID namespace's first process, by whatever cause, ends every one of them:
the lease is the kernel's. As root the namespaces are made directly; without root they are made in a user namespace,
by the same code.

    argv = enclose(["python", "-m", "harness.inside", "results/runs/…"], Privilege.detect())
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from enum import Enum

from harness.model import EnvironmentFailure


class Privilege(Enum):
    """By which right namespaces can be made here."""

    ROOT = "root"
    USER_NAMESPACE = "user namespace"

    @staticmethod
    def detect() -> Privilege:
        """ROOT for uid 0, else USER_NAMESPACE."""
        return Privilege.ROOT if os.geteuid() == 0 else Privilege.USER_NAMESPACE


def enclose(argv: Sequence[str], privilege: Privilege) -> list[str]:
    """The command that runs argv in a sandbox and dies with its parent.

    setpriv ends unshare when the parent thread ends, unshare's --kill-child then ends the PID namespace.
    """
    user = [] if privilege is Privilege.ROOT else ["--map-root-user"]
    namespaces = ["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [
        *["setpriv", "--pdeathsig", "KILL", "--"],
        *["unshare", *user, *namespaces, "--propagation", "private", "--"],
        *argv,
    ]


def probe(privilege: Privilege) -> None:
    """Make a sandbox with a bridge and an nft table and leave it again: raises EnvironmentFailure where that fails."""
    script = "ip link add probe type bridge && nft add table ip probe && nft list tables >/dev/null"
    try:
        result = subprocess.run(
            enclose(["sh", "-c", script], privilege), capture_output=True, text=True, timeout=20, check=False
        )
    except FileNotFoundError as error:
        raise EnvironmentFailure(f"making namespaces: {error.filename} is missing; install util-linux") from error
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise EnvironmentFailure(f"making namespaces by right of {privilege.value}: {reason}")
