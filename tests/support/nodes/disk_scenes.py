"""What the tests of disks do with them inside a sandbox; as scenes.py, with which it is played.

python disk_scenes.py SCENE DIRECTORY [FILE_SYSTEM]
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.model import SplitbrainError
from harness.model.faults.disks import FileSystem
from nodes.hosts.commands import run
from nodes.hosts.disks.disks import Make, NamespaceDisks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.wire.batches import Record, encode_batch

LOG = "__cluster_metadata-0/00000000000000000000.log"
STATE = "__cluster_metadata-0/quorum-state"
BATCHES = [encode_batch([Record(None, bytes(20))], each, 1, 0) for each in range(3)]
SMALL_MIB = 32
SIZE_MIB = {"directory": SMALL_MIB, "tmpfs": SMALL_MIB, "ext4": SMALL_MIB, "xfs": 320}
LIVE = {
    "fill_disk": {"free_bytes": 100_000},
    "read_only_disk": {},
    "slow_disk": {"delay_ms": 40},
    "hang_disk": {},
    "disk_errors": {"rate": 0.3, "error": "EIO"},
}
AT_REST = {
    "flip_bits": {"bits": 3, "files": "__cluster_metadata-0/*.log"},
    "truncate_log": {"last_batches": 1, "last_bytes": 0, "log": "__cluster_metadata-0"},
    "corrupt_checkpoint": {"checkpoint": "quorum-state", "damage": "garbage"},
    "lose_unsynced": {},
    "lose_disk": {},
}


def tell(**line: Any) -> None:
    print(json.dumps(line), flush=True)


@asynccontextmanager
async def two_nodes(directory: Path, make: Make) -> AsyncIterator[tuple[NamespaceHosts, NamespaceDisks]]:
    """Two hosts with disks, on each a log of three batches and a quorum-state."""
    async with NamespaceHosts.up(directory, nodes=2) as hosts:

        async def fill(node: int, _newcomer: bool = False) -> None:
            data = hosts.views[node].directory / "data"
            (data / LOG).parent.mkdir(parents=True)
            (data / LOG).write_bytes(b"".join(BATCHES))
            (data / STATE).write_text("{}")
            os.sync()

        async with NamespaceDisks.up(hosts, make, fill, seed=7) as disks:
            for node in hosts.views:
                await fill(node)
            yield hosts, disks


async def live(directory: Path, kind: FileSystem) -> None:
    """Each fault of a running node's disk: what proves it, what the other node meets, and what is met once healed."""
    told: dict[str, Any] = {}
    async with two_nodes(directory, Make(kind, SIZE_MIB[kind], layered=True)) as (_, disks):
        for deed, details in LIVE.items():
            missing = disks.missing(deed)
            if missing:
                told[deed] = {"missing": missing}
                continue
            before = await disks.probe(1, deed, details)
            done = await disks.do(1, deed, details)
            met = {"before": before, "during": await disks.probe(1, deed, done), "other": await disks.trouble(2)}
            disturbed = disks.disturbed
            await disks.undo(1)
            await disks.undo(1)
            told[deed] = {**met, "disturbed": disturbed, "healed": await disks.trouble(1), "left": disks.disturbed}
    tell(told=told)


async def at_rest(directory: Path, kind: FileSystem, layered: bool = True) -> None:
    """Each damage to a disk at rest: what was done, what proves it, and the log as the node reads it afterwards."""
    told: dict[str, Any] = {}
    async with two_nodes(directory, Make(kind, SIZE_MIB[kind], layered)) as (hosts, disks):
        for deed, details in AT_REST.items():
            missing = disks.missing(deed)
            if missing:
                told[deed] = {"missing": missing}
                continue
            done = await disks.do(1, deed, details)
            proof = await disks.probe(1, deed, done)
            data = hosts.views[1].directory / "data"
            size = (await run(hosts.enter(1, ["stat", "-c", "%s", str(data / LOG)]))).strip()
            names = (await run(hosts.enter(1, ["ls", "-A", str(data)]))).split()
            told[deed] = {"done": done, "proof": proof, "size": int(size), "names": names}
        told["undamaged"] = await disks.probe(2, "flip_bits", {"file": LOG, "before": "", "after": "never"})
    tell(told=told, batch=len(BATCHES[0]))


async def plain_at_rest(directory: Path, kind: FileSystem) -> None:
    await at_rest(directory, kind, layered=False)


async def same_through_a_layer(directory: Path, kind: FileSystem) -> None:
    """What a process on the node meets when it uses files in every way, beside the disk and through a layer."""
    async with two_nodes(directory, Make(kind, SIZE_MIB[kind], layered=True)) as (hosts, _):
        told = {}
        for name, folder in (("beside", directory / "n1" / "beside"), ("through", directory / "n1" / "data" / "used")):
            folder.mkdir()
            told[name] = json.loads(await run(hosts.enter(1, [sys.executable, "-c", EVERY_WAY, str(folder)])))
        tell(**told)


EVERY_WAY = """
import json, mmap, os, shutil, sys
os.chdir(sys.argv[1])
told = {}
os.makedirs("a/b")
open("a/b/file", "w").write("x" * 300_000)
os.rename("a/b/file", "a/renamed")
open("other", "w").write("other")
os.replace("other", "a/b/replaced")
told["listed"] = [sorted(each) if isinstance(each, list) else each for step in sorted(os.walk(".")) for each in step]
os.truncate("a/renamed", 5)
with open("a/renamed", "rb+") as file:
    os.unlink("a/renamed")
    told["unlinked"] = [os.fstat(file.fileno()).st_size, file.read().decode(), os.path.exists("a/renamed")]
with open("mapped", "wb+") as file:
    file.truncate(8192)
    with mmap.mmap(file.fileno(), 8192) as mapped:
        mapped[4000:4003] = b"abc"
        mapped.flush()
    os.posix_fallocate(file.fileno(), 0, 20_000)
told["mapped"] = [open("mapped", "rb").read()[4000:4003].decode(), os.stat("mapped").st_size]
with open("appended", "ab", buffering=0) as first, open("appended", "ab", buffering=0) as second:
    for number in range(5):
        first.write(b"1")
        second.write(b"2")
        os.fdatasync(first.fileno())
told["appended"] = open("appended").read()
os.chmod("appended", 0o640)
os.utime("appended", (10, 20.5))
status = os.stat("appended")
told["status"] = [oct(status.st_mode), status.st_atime, status.st_mtime, status.st_size]
os.link("appended", "linked")
told["linked"] = [os.stat("linked").st_nlink, os.path.samefile("linked", "appended")]
for number in range(500):
    open(f"many-{number:03}", "w").close()
told["many"] = len(os.listdir("."))
errors = []
for deed in (lambda: os.rmdir("a"), lambda: os.mkdir("a"), lambda: open("none"), lambda: os.rename("none", "some")):
    try:
        deed()
    except OSError as error:
        errors.append(error.strerror)
told["errors"] = errors
folder = os.open(".", os.O_RDONLY)
os.fsync(folder)
shutil.rmtree("a")
told["left"] = os.path.exists("a")
print(json.dumps(told))
"""


async def killed_waiter(directory: Path, kind: FileSystem) -> None:
    """How long a process that waits for a disk that hangs outlives its SIGKILL, and what the disk does then."""
    async with two_nodes(directory, Make(kind, SIZE_MIB[kind], layered=True)) as (hosts, disks):
        target = hosts.views[1].directory / "data" / "written"
        writer = await asyncio.create_subprocess_exec(
            *hosts.enter(1, ["sh", "-c", 'while :; do echo x >>"$0" && echo wrote; done', str(target)]),
            stdout=asyncio.subprocess.PIPE,
        )
        assert writer.stdout is not None
        await writer.stdout.readline()
        await disks.do(1, "hang_disk", {})
        proof = await disks.probe(1, "hang_disk", {})
        writer.kill()
        began = time.monotonic()
        await writer.wait()
        took = time.monotonic() - began
        await disks.undo(1)
        tell(proof=proof, took_seconds=took, trouble=await disks.trouble(1))


async def paused_waiter(directory: Path, kind: FileSystem) -> None:
    """Whether who waits for a disk that hangs meets no error when it is healed, and the controller reads meanwhile."""
    async with two_nodes(directory, Make(kind, SIZE_MIB[kind], layered=True)) as (hosts, disks):
        target = hosts.views[1].directory / "data" / "written"
        await disks.do(1, "hang_disk", {})
        writer = await asyncio.create_subprocess_exec(*hosts.enter(1, ["sh", "-c", 'echo x >"$0"', str(target)]))
        proof = await disks.probe(1, "hang_disk", {})
        waits, read = writer.returncode is None, (hosts.views[1].readable / "data" / STATE).read_text()
        await disks.undo(1)
        tell(proof=proof, waits=waits, read=read, code=await writer.wait(), wrote=target.read_text())


async def refused(directory: Path, kind: FileSystem) -> None:
    """What a damage says that cannot be done."""
    asked = {
        "no file": ("flip_bits", {"bits": 1, "files": "*.index"}),
        "no batches": ("truncate_log", {"last_batches": 9, "log": "__cluster_metadata-0"}),
        "no checkpoint": ("corrupt_checkpoint", {"checkpoint": "leader-epoch-checkpoint", "damage": "empty"}),
        "no layer": ("hang_disk", {}),
        "no deed": ("melt", {}),
    }
    told = {}
    async with two_nodes(directory, Make(kind, SIZE_MIB[kind])) as (_, disks):
        for name, (deed, details) in asked.items():
            try:
                await disks.do(1, deed, details)
            except SplitbrainError as error:
                told[name] = str(error)
    tell(told=told)


async def small(directory: Path, kind: FileSystem) -> None:
    """Disks as small as no xfs can be."""
    async with two_nodes(directory, Make(kind, SMALL_MIB)):
        tell(made=kind)


async def left_behind(directory: Path, kind: FileSystem) -> None:
    """What is mounted below the directory and which loop devices are bound, while disks are up and afterwards."""
    async with two_nodes(directory, Make(kind, SIZE_MIB[kind], layered=True)) as (_, disks):
        await disks.do(1, "slow_disk", {"delay_ms": 20})
        during = await _traces(directory)
    names = sorted(str(path.relative_to(directory / "n1")) for path in (directory / "n1").rglob("*") if path.is_file())
    tell(during=during, after=await _traces(directory), names=names)


async def stays(directory: Path, kind: FileSystem) -> None:
    """Hang a disk under a process that writes, and wait to be killed."""
    async with two_nodes(directory, Make(kind, SIZE_MIB[kind], layered=True)) as (hosts, disks):
        target = hosts.views[1].directory / "data" / "written"
        await disks.do(1, "hang_disk", {})
        await asyncio.create_subprocess_exec(*hosts.enter(1, ["sh", "-c", 'echo x >"$0"', str(target)]))
        await disks.probe(1, "hang_disk", {})
        tell(namespace=os.readlink("/proc/self/ns/pid"), loops=(await _traces(directory))["loops"])
        await asyncio.to_thread(sys.stdin.readline)


async def _traces(directory: Path) -> dict[str, int]:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    below = [mounted for mounted in mounts if mounted.startswith(f"{directory}")]
    backing = Path("/sys/block").glob("loop*/loop/backing_file")
    return {"mounts": len(below), "loops": sum(str(directory) in path.read_text() for path in backing)}


SCENES = {
    scene.__name__: scene
    for scene in (
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

if __name__ == "__main__":
    asyncio.run(SCENES[sys.argv[1]](Path(sys.argv[2]), sys.argv[3]))  # type: ignore[arg-type]
