"""Test cases for disks, run inside a sandbox: each prints its result as one JSON line.

python disk_cases.py CASE DIRECTORY FILE_SYSTEM      (started by test_namespace_disks.py)
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

from harness.model import SplitbrainError
from harness.model.faults.disks import FileSystem
from nodes.hosts.commands import run
from nodes.hosts.disks.disks import DiskSpec, NamespaceDisks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.wire.batches import Record, encode_batch

LOG = "__cluster_metadata-0/00000000000000000000.log"
STATE = "__cluster_metadata-0/quorum-state"
BATCHES = [encode_batch([Record(None, bytes(20))], base_offset, 1, 0) for base_offset in range(3)]
SMALL_MIB = 32
SIZE_MIB: Mapping[FileSystem, int] = {"directory": SMALL_MIB, "tmpfs": SMALL_MIB, "ext4": SMALL_MIB, "xfs": 320}
LIVE: Mapping[str, Mapping[str, Any]] = {
    "fill_disk": {"free_bytes": 100_000},
    "read_only_disk": {},
    "slow_disk": {"delay_ms": 40},
    "hang_disk": {},
    "disk_errors": {"rate": 0.3, "error": "EIO"},
}
AT_REST: Mapping[str, Mapping[str, Any]] = {
    "flip_bits": {"bits": 3, "files": "__cluster_metadata-0/*.log"},
    "truncate_log": {"last_batches": 1, "last_bytes": 0, "log": "__cluster_metadata-0"},
    "corrupt_checkpoint": {"file": STATE, "damage": "garbage"},
    "lose_unsynced": {},
    "lose_disk": {},
}


def report(**result: Any) -> None:
    print(json.dumps(result), flush=True)


@asynccontextmanager
async def two_nodes(directory: Path, spec: DiskSpec) -> AsyncIterator[tuple[NamespaceHosts, NamespaceDisks]]:
    """Two hosts with disks. Each disk holds a log of three batches and a quorum-state."""
    async with NamespaceHosts.up(directory, nodes=2) as hosts:

        async def fill(node: int, _newcomer: bool = False) -> None:
            data = hosts.views[node].directory / "data"
            (data / LOG).parent.mkdir(parents=True)
            (data / LOG).write_bytes(b"".join(BATCHES))
            (data / STATE).write_text("{}")
            os.sync()

        async with NamespaceDisks.up(hosts, spec, fill, seed=7) as disks:
            for node in hosts.views:
                await fill(node)
            yield hosts, disks


async def live(directory: Path, kind: FileSystem) -> None:
    """Each fault of a running node's disk: its proof, its effect on the other node, and the state after heal."""
    results: dict[str, Any] = {}
    async with two_nodes(directory, DiskSpec(kind, SIZE_MIB[kind], layered=True)) as (_, disks):
        for fault, details in LIVE.items():
            missing = disks.unavailable(fault)
            if missing:
                results[fault] = {"missing": missing}
                continue
            before = await disks.probe(1, fault, details)
            done = await disks.inject(1, fault, details)
            seen = {"before": before, "during": await disks.probe(1, fault, done), "other": await disks.problem(2)}
            disturbed = disks.faulty
            await disks.heal(1)
            await disks.heal(1)
            results[fault] = {**seen, "disturbed": disturbed, "healed": await disks.problem(1), "left": disks.faulty}
    report(results=results)


async def at_rest(directory: Path, kind: FileSystem, layered: bool = True) -> None:
    """Each damage to a disk at rest: what was done, its proof, and the log as the node reads it afterwards."""
    results: dict[str, Any] = {}
    async with two_nodes(directory, DiskSpec(kind, SIZE_MIB[kind], layered)) as (hosts, disks):
        for fault, details in AT_REST.items():
            missing = disks.unavailable(fault)
            if missing:
                results[fault] = {"missing": missing}
                continue
            done = await disks.inject(1, fault, details)
            proof = await disks.probe(1, fault, done)
            data = hosts.views[1].directory / "data"
            size = (await run(hosts.enter(1, ["stat", "-c", "%s", str(data / LOG)]))).strip()
            names = (await run(hosts.enter(1, ["ls", "-A", str(data)]))).split()
            results[fault] = {"done": done, "proof": proof, "size": int(size), "names": names}
        results["undamaged"] = await disks.probe(2, "flip_bits", {"file": LOG, "before": "", "after": "never"})
    report(results=results, batch_bytes=len(BATCHES[0]))


async def plain_at_rest(directory: Path, kind: FileSystem) -> None:
    await at_rest(directory, kind, layered=False)


async def same_through_a_layer(directory: Path, kind: FileSystem) -> None:
    """What a process on the node sees when it uses files in every way, directly and through a layer."""
    async with two_nodes(directory, DiskSpec(kind, SIZE_MIB[kind], layered=True)) as (hosts, _):
        results = {}
        for name, folder in (("direct", directory / "n1" / "direct"), ("layered", directory / "n1" / "data" / "used")):
            folder.mkdir()
            results[name] = json.loads(await run(hosts.enter(1, [sys.executable, "-c", FILE_OPERATIONS, str(folder)])))
        report(**results)


FILE_OPERATIONS = """
import json, mmap, os, shutil, sys
os.chdir(sys.argv[1])
results = {}
os.makedirs("a/b")
open("a/b/file", "w").write("x" * 300_000)
os.rename("a/b/file", "a/renamed")
open("other", "w").write("other")
os.replace("other", "a/b/replaced")
results["listed"] = [sorted(part) if isinstance(part, list) else part for row in sorted(os.walk(".")) for part in row]
os.truncate("a/renamed", 5)
with open("a/renamed", "rb+") as file:
    os.unlink("a/renamed")
    results["unlinked"] = [os.fstat(file.fileno()).st_size, file.read().decode(), os.path.exists("a/renamed")]
with open("mapped", "wb+") as file:
    file.truncate(8192)
    with mmap.mmap(file.fileno(), 8192) as mapped:
        mapped[4000:4003] = b"abc"
        mapped.flush()
    os.posix_fallocate(file.fileno(), 0, 20_000)
results["mapped"] = [open("mapped", "rb").read()[4000:4003].decode(), os.stat("mapped").st_size]
with open("appended", "ab", buffering=0) as first, open("appended", "ab", buffering=0) as second:
    for number in range(5):
        first.write(b"1")
        second.write(b"2")
        os.fdatasync(first.fileno())
results["appended"] = open("appended").read()
os.chmod("appended", 0o640)
os.utime("appended", (10, 20.5))
status = os.stat("appended")
results["status"] = [oct(status.st_mode), status.st_atime, status.st_mtime, status.st_size]
os.link("appended", "linked")
results["linked"] = [os.stat("linked").st_nlink, os.path.samefile("linked", "appended")]
for number in range(500):
    open(f"many-{number:03}", "w").close()
results["many"] = len(os.listdir("."))
errors = []
for call in (lambda: os.rmdir("a"), lambda: os.mkdir("a"), lambda: open("none"), lambda: os.rename("none", "some")):
    try:
        call()
    except OSError as error:
        errors.append(error.strerror)
results["errors"] = errors
folder = os.open(".", os.O_RDONLY)
os.fsync(folder)
shutil.rmtree("a")
results["left"] = os.path.exists("a")
print(json.dumps(results))
"""


async def killed_waiter(directory: Path, kind: FileSystem) -> None:
    """How long a process that waits for a hanging disk survives SIGKILL, and whether the disk works afterwards."""
    async with two_nodes(directory, DiskSpec(kind, SIZE_MIB[kind], layered=True)) as (hosts, disks):
        target = hosts.views[1].directory / "data" / "written"
        writer = await asyncio.create_subprocess_exec(
            *hosts.enter(1, ["sh", "-c", 'while :; do echo x >>"$0" && echo wrote; done', str(target)]),
            stdout=asyncio.subprocess.PIPE,
        )
        assert writer.stdout is not None
        await writer.stdout.readline()
        await disks.inject(1, "hang_disk", {})
        proof = await disks.probe(1, "hang_disk", {})
        writer.kill()
        started = time.monotonic()
        await writer.wait()
        took = time.monotonic() - started
        await disks.heal(1)
        report(proof=proof, took_seconds=took, trouble=await disks.problem(1))


async def paused_waiter(directory: Path, kind: FileSystem) -> None:
    """Whether a process that waits for a hanging disk continues after heal, while the controller can read the files."""
    async with two_nodes(directory, DiskSpec(kind, SIZE_MIB[kind], layered=True)) as (hosts, disks):
        target = hosts.views[1].directory / "data" / "written"
        await disks.inject(1, "hang_disk", {})
        writer = await asyncio.create_subprocess_exec(*hosts.enter(1, ["sh", "-c", 'echo x >"$0"', str(target)]))
        proof = await disks.probe(1, "hang_disk", {})
        waits, read = writer.returncode is None, (hosts.views[1].readable / "data" / STATE).read_text()
        await disks.heal(1)
        report(proof=proof, waits=waits, read=read, code=await writer.wait(), wrote=target.read_text())


async def refused(directory: Path, kind: FileSystem) -> None:
    """The messages for damages that are not possible."""
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "no file": ("flip_bits", {"bits": 1, "files": "*.index"}),
        "no batches": ("truncate_log", {"last_batches": 9, "log": "__cluster_metadata-0"}),
        "no checkpoint": ("corrupt_checkpoint", {"file": "leader-epoch-checkpoint", "damage": "empty"}),
        "no layer": ("hang_disk", {}),
        "no action": ("melt", {}),
    }
    messages = {}
    async with two_nodes(directory, DiskSpec(kind, SIZE_MIB[kind])) as (_, disks):
        for name, (fault, details) in requests.items():
            try:
                await disks.inject(1, fault, details)
            except SplitbrainError as error:
                messages[name] = str(error)
    report(messages=messages)


async def small(directory: Path, kind: FileSystem) -> None:
    """Disks smaller than xfs allows."""
    async with two_nodes(directory, DiskSpec(kind, SMALL_MIB)):
        report(made=kind)


async def left_behind(directory: Path, kind: FileSystem) -> None:
    """The mounts below the directory and the bound loop devices, while disks are up and afterwards."""
    async with two_nodes(directory, DiskSpec(kind, SIZE_MIB[kind], layered=True)) as (_, disks):
        await disks.inject(1, "slow_disk", {"delay_ms": 20})
        during = await _traces(directory)
    names = sorted(str(path.relative_to(directory / "n1")) for path in (directory / "n1").rglob("*") if path.is_file())
    report(during=during, after=await _traces(directory), names=names)


async def stays(directory: Path, kind: FileSystem) -> None:
    """Hang a disk while a process writes to it, and wait to be killed."""
    async with two_nodes(directory, DiskSpec(kind, SIZE_MIB[kind], layered=True)) as (hosts, disks):
        target = hosts.views[1].directory / "data" / "written"
        await disks.inject(1, "hang_disk", {})
        await asyncio.create_subprocess_exec(*hosts.enter(1, ["sh", "-c", 'echo x >"$0"', str(target)]))
        await disks.probe(1, "hang_disk", {})
        report(namespace=os.readlink("/proc/self/ns/pid"), loops=(await _traces(directory))["loops"])
        await asyncio.to_thread(sys.stdin.readline)


async def _traces(directory: Path) -> dict[str, int]:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    below = [path for path in mounts if path.startswith(str(directory))]
    backing = Path("/sys/block").glob("loop*/loop/backing_file")
    return {"mounts": len(below), "loops": sum(str(directory) in path.read_text() for path in backing)}


CASES = {
    case.__name__: case
    for case in (
        same_through_a_layer,
        live,
        at_rest,
        plain_at_rest,
        killed_waiter,
        paused_waiter,
        refused,
        small,
        left_behind,
        stays,
    )
}

FILE_SYSTEMS: Mapping[str, FileSystem] = {kind: kind for kind in get_args(FileSystem)}

if __name__ == "__main__":
    asyncio.run(CASES[sys.argv[1]](Path(sys.argv[2]), FILE_SYSTEMS[sys.argv[3]]))
