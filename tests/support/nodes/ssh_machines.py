"""Simulated machines: a real sshd in each of a sandbox's namespaces, with keys and accounts for the test.

Contains the machines; ssh_cases.py contains the test cases that use them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from nodes.hosts.netns.hosts import NamespaceHosts

SSHD = os.environ.get("SPLITBRAIN_TEST_SSHD", "/usr/sbin/sshd")
PASSWD = "root:x:0:0:root:/:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n"
SHADOW = "root:*:20000:0:99999:7:::\nsshd:!:20000::::::\n"
CONFIGURATION = """\
ListenAddress {address}
HostKey {home}/host_key
AuthorizedKeysFile {keys}
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""
SUDO = """\
#!/bin/sh
printf '%s\\n' "$*" >>{home}/sudo.log
while [ "$1" = -n ] || [ "$1" = -- ]; do shift; done
exec "$@"
"""
SERVE = """\
mount -t tmpfs none /run && mkdir /run/sshd && cd "$1" &&
mount -t tmpfs none /usr/local/sbin && install sudo /usr/local/sbin/sudo &&
mount --bind passwd /etc/passwd && mount --bind shadow /etc/shadow && exec "$2" -D -E "$1/sshd.log" -f "$1/sshd_config"
"""


@asynccontextmanager
async def machines(directory: Path, count: int) -> AsyncIterator[NamespaceHosts]:
    """Namespaces with an sshd in each; the client's key is in the directory."""
    async with NamespaceHosts.up(directory, count) as hosts:
        make_key(directory / "key")
        servers = await asyncio.gather(*(serve(hosts, node) for node in hosts.views))
        try:
            yield hosts
        finally:
            for server in servers:
                server.kill()
            await asyncio.gather(*(server.wait() for server in servers))


async def serve(hosts: NamespaceHosts, node: int) -> asyncio.subprocess.Process:
    """Start the sshd of a machine; it accepts connections some time later."""
    home, address = hosts.views[node].directory, hosts.views[node].address
    make_key(home / "host_key")
    (home / "passwd").write_text(PASSWD)
    (home / "sudo").write_text(SUDO.format(home=home))
    (home / "shadow").write_text(SHADOW)
    keys = home.parent / "key.pub"
    (home / "sshd_config").write_text(CONFIGURATION.format(address=address, home=home, keys=keys))
    argv = hosts.enter(node, ["sh", "-c", SERVE, "serve", str(home), SSHD])
    return await asyncio.create_subprocess_exec(*argv, stdin=subprocess.DEVNULL, start_new_session=True)


def inventory(hosts: NamespaceHosts, directory: Path, **settings: object) -> Path:
    """An inventory of the machines; each has its host_key unless `settings` contain another way to verify it."""
    defaults = {
        "user": "root",
        "key": str(directory / "key"),
        "directory": str(directory / "remote"),
        "python": sys.executable,
    }
    lines = ["[defaults]", *(_line(name, value) for name, value in {**defaults, **settings}.items())]
    for node, view in hosts.views.items():
        lines += ["[[hosts]]", _line("name", f"n{node}"), _line("address", view.address)]
        if not {"accept_unknown", "known_hosts", "host_key"} & set(settings):
            lines.append(_line("host_key", host_key(hosts, node)))
    path = directory / "inventory.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def host_key(hosts: NamespaceHosts, node: int) -> str:
    """A machine's host key: its type and its value."""
    return " ".join((hosts.views[node].directory / "host_key.pub").read_text().split()[:2])


def _line(name: str, value: object) -> str:
    return f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}"


def make_key(path: Path) -> None:
    """Create an ed25519 key without a passphrase, unless it exists."""
    if path.exists():
        return
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.touch(0o600)
    path.write_bytes(secret)
    path.with_name(f"{path.name}.pub").write_bytes(public + b"\n")
