"""One SSH connection to one machine: commands, files, folders and long-lived streams.

Contains all use of paramiko and fabric; nodes.hosts.ssh.hosts decides what runs on the machine. Every call blocks: from
an event loop, use asyncio.to_thread.

    with closing(SshConnection(host)) as connection:
        connection.open()
        connection.run(["uname", "-r"])
"""

from __future__ import annotations

import base64
import io
import logging
import shlex
import socket
import stat
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.ssh_exception import (
    AuthenticationException,
    BadHostKeyException,
    SSHException,
)

from harness.model import EnvironmentFailure
from nodes.hosts.ssh.inventory import InventoryHost

CONNECT_SECONDS = 10.0
RETRY_AFTER_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Pauses between attempts to connect; one more attempt follows the last pause."""
KEEPALIVE_SECONDS = 10
CHUNK_BYTES = 1 << 16
# Errors are raised, so the library must not also log them to standard error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

WIDER_PATH = "PATH=$PATH:/usr/sbin:/sbin"


class UnknownMachine(SSHException):
    """A machine presented an unknown host key."""


FINAL_REFUSALS = (AuthenticationException, BadHostKeyException, UnknownMachine)


class SshConnection:
    """A connection to one machine of the inventory."""

    def __init__(self, host: InventoryHost) -> None:
        self.host = host
        self._connection = fabric.Connection(
            host.address,
            user=host.user,
            port=host.port,
            # The user's ssh configuration must not redirect this name to another machine.
            config=fabric.Config(overrides={"load_ssh_configs": False}),
            connect_kwargs={
                "key_filename": str(Path(host.key).expanduser()),
                "allow_agent": False,
                "look_for_keys": False,
                "timeout": CONNECT_SECONDS,
                "banner_timeout": CONNECT_SECONDS,
                "auth_timeout": CONNECT_SECONDS,
            },
        )

    def open(self) -> None:
        """Connect; retries for a while if the machine does not respond. Raises EnvironmentFailure.

        Does not retry if the host key is wrong or unknown, or if the machine rejects our key.
        """
        with self._attempting("connecting to"):
            self._load_host_keys()
            for pause_seconds in (*RETRY_AFTER_SECONDS, None):
                try:
                    self._open()
                    break
                except (OSError, SSHException, EOFError) as error:
                    if pause_seconds is None or isinstance(error, FINAL_REFUSALS):
                        raise
                    self._connection.close()
                    time.sleep(pause_seconds)

    def close(self) -> None:
        """Close the connection; can be repeated."""
        self._connection.close()

    def run(
        self, argv: Sequence[str], stdin: bytes = b"", timeout_seconds: float = 60.0, privileged: bool = False
    ) -> str:
        """Run a short command there; its standard output. Raises EnvironmentFailure with the command's last line.

        Standard error is read after standard output has ended, so it must fit the channel's window of 2 MiB. A command
        that times out is killed on the machine one second later; closing its channel would not kill it.
        """
        command = " ".join(argv)
        limit = ["timeout", "--signal", "KILL", f"{timeout_seconds + 1:g}"]
        with self._attempting(f"running {command} on"):
            channel = self.stream([*limit, *argv], privileged)
            channel.settimeout(timeout_seconds)
            try:
                channel.sendall(stdin)
                channel.shutdown_write()
                out = b"".join(_received(channel.recv))
                err = b"".join(_received(channel.recv_stderr))
                code = channel.recv_exit_status()
            except TimeoutError as error:
                raise EnvironmentFailure(
                    f"running {command} on {self.host}: timed out after {timeout_seconds:g} s"
                ) from error
            finally:
                channel.close()
        if code:
            lines = (err or out).decode(errors="replace").strip().splitlines() or ["no output"]
            raise EnvironmentFailure(f"running {command} on {self.host}: exit {code}: {lines[-1]}")
        return out.decode(errors="replace")

    def stream(self, argv: Sequence[str], privileged: bool = False) -> Any:
        """A channel to a new command; the caller closes it."""
        command = ["sudo", "-n", "--", *argv] if privileged and self.host.sudo else list(argv)
        with self._attempting("opening a channel to"):
            channel = self._transport().open_session(timeout=CONNECT_SECONDS)
            # A POSIX shell reads the line, whatever the user's login shell is.
            channel.exec_command(f"exec sh -c {shlex.quote(f'{WIDER_PATH}; exec {shlex.join(command)}')}")
        return channel

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file and create its missing parent folders."""
        self.run(["mkdir", "-p", str(path.parent)])
        with self._attempting(f"writing {path} on"):
            self._sftp().putfo(io.BytesIO(content), str(path))

    def put(self, source: Path, target: Path) -> None:
        """Copy a file to the machine, or a folder as one compressed stream."""
        self.run(["mkdir", "-p", str(target if source.is_dir() else target.parent)])
        with self._attempting(f"copying {source} to {target} on"):
            if source.is_dir():
                self._put_folder(source, target)
            else:
                self._sftp().put(str(source), str(target))

    def get(self, source: Path, target: Path) -> None:
        """Copy a file from the machine, or a folder as one compressed stream."""
        with self._attempting(f"copying {source} to {target} on"):
            if stat.S_ISDIR(self._sftp().stat(str(source)).st_mode):
                target.mkdir(parents=True, exist_ok=True)
                self._get_folder(source, target)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                self._sftp().get(str(source), str(target))

    def _put_folder(self, source: Path, target: Path) -> None:
        channel = self.stream(["tar", "--extract", "--gzip", "--directory", str(target)])
        try:
            with channel.makefile("wb") as pipe, tarfile.open(fileobj=pipe, mode="w|gz") as archive:
                archive.add(source, arcname=".")
            channel.shutdown_write()
            self._check_tar(channel, accepted=(0,))
        finally:
            channel.close()

    def _get_folder(self, source: Path, target: Path) -> None:
        channel = self.stream(["tar", "--create", "--gzip", "--directory", str(source), "."])
        try:
            with channel.makefile("rb") as pipe, tarfile.open(fileobj=pipe, mode="r|gz") as archive:
                _extract(archive, target)
            # Exit code 1: a file changed while tar read it. A running server's files do.
            self._check_tar(channel, accepted=(0, 1))
        finally:
            channel.close()

    def _check_tar(self, channel: Any, accepted: Sequence[int]) -> None:
        err = b"".join(_received(channel.recv_stderr)).decode(errors="replace").strip().splitlines()
        code = channel.recv_exit_status()
        if code not in accepted:
            raise EnvironmentFailure(f"running tar on {self.host}: exit {code}: {(err or ['no output'])[-1]}")

    def _load_host_keys(self) -> None:
        """Load the accepted host keys; unknown keys are accepted only if the inventory says so."""
        client: paramiko.SSHClient = self._connection.client
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy() if self.host.accept_unknown else _Refuse())
        if self.host.host_key is not None:
            kind, _, key = self.host.host_key.partition(" ")
            name = self.host.address if self.host.port == 22 else f"[{self.host.address}]:{self.host.port}"
            client.get_host_keys().add(name, kind, paramiko.PKey.from_type_string(kind, base64.b64decode(key)))
        elif not self.host.accept_unknown:
            client.load_system_host_keys(str(Path(self.host.known_hosts).expanduser()))

    def _open(self) -> None:
        self._connection.open()
        transport = self._transport()
        # Without this, each small request takes 40 ms: Nagle's algorithm (RFC 896) waits for delayed ACKs.
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_keepalive(KEEPALIVE_SECONDS)

    def _transport(self) -> Any:
        transport = self._connection.client.get_transport()
        if transport is None or not transport.is_active():
            raise EnvironmentFailure(f"contacting {self.host}: the connection is lost")
        return transport

    def _sftp(self) -> Any:
        self._transport()
        return self._connection.sftp()

    @contextmanager
    def _attempting(self, what: str) -> Iterator[None]:
        """Report an error within the block in one line that names what was attempted and the machine."""
        try:
            yield
        except (OSError, SSHException, EOFError, tarfile.TarError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise EnvironmentFailure(f"{what} {self.host}: {reason}") from error


class _Refuse(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:  # noqa: ARG002 (paramiko's signature)
        raise UnknownMachine(
            f"its host key {key.get_name()} {key.get_base64()} is not known; "
            "add it to known_hosts, or to the inventory as host_key"
        )


def _received(receive: Any) -> Iterator[bytes]:
    while chunk := receive(CHUNK_BYTES):
        yield chunk


def _extract(archive: tarfile.TarFile, target: Path) -> None:
    """Extract files and folders below the target. Raises tarfile.TarError for anything else."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(target, filter="data")
        return
    for member in archive:  # Python before 3.11.4, e.g. Debian 12's, has no filters
        is_below = (target / member.name).resolve().is_relative_to(target.resolve())
        if not is_below or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"expected files and folders below {target}, found {member.name}")
        archive.extract(member, target)
