"""The sandbox of a run: namespaces that the kernel takes down, with all that is in them, when the controller is gone.

A run's controller works in network, mount, UTS and PID namespaces of its own. Node processes, bridges, rules and
mounts live inside, so that the death of the PID namespace's first process, by whatever cause, ends every one of them:
the lease is the kernel's. As root the namespaces are made directly; without root they are made in a user namespace,
by the same code.

    argv = enclose(["python", "-m", "harness.running.controller", "results/runs/…"], Privilege.detect())
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from enum import Enum

from harness.model import EnvironmentFailure

TOOLS = ("unshare", "nsenter", "setpriv", "ip", "nft")
PROBE_SECONDS = 20
INSTALL_TOOLS = "as root: apt-get install -y util-linux iproute2 nftables"


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


def tie(argv: Sequence[str]) -> list[str]:
    """The command that runs argv as it is and, where setpriv is, dies with its parent."""
    return [*(["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []), *argv]


def widen_path() -> None:
    """Let this process and its children find ip and nft, which Debian keeps where only root's path leads."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def missing_tools() -> list[str]:
    """The programs that sandboxes and namespace hosts need and that are not on the path."""
    return [tool for tool in TOOLS if not shutil.which(tool)]


def probe(privilege: Privilege) -> None:
    """Make a sandbox with a bridge and an nft table and leave it again: raises EnvironmentFailure where that fails."""
    missing = missing_tools()
    if missing:
        raise EnvironmentFailure(f"making namespaces: no {', '.join(missing)} on the path; {INSTALL_TOOLS}")
    script = "ip link add probe type bridge && nft add table ip probe && nft list tables >/dev/null"
    argv = enclose(["sh", "-c", script], privilege)
    try:
        result = subprocess.run(argv, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(f"making namespaces: not done after {PROBE_SECONDS} s") from error
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise EnvironmentFailure(f"making namespaces by right of {privilege.value}: {reason}")
