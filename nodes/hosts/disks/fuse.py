"""The FUSE protocol (fuse(4), linux/fuse.h, version 7.31): passes each request to a backing directory.

Contains the messages and their effect on the backing files. Does not contain the device, faults or waiting.

The protocol is implemented here because libfuse blocks one of its few threads per waiting request, and a hanging disk
would block them all. The kernel knows a file by a number that we assign. We know it by an O_PATH descriptor, so it
stays the same file when it is renamed. Requests without a handler (locks, extended attributes, …) are handled by the
kernel itself or are not supported.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

HEADER = struct.Struct("<IIQQIIIHH")  # length, opcode, unique, node, uid, gid, pid, …
_RESPONSE = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<6Q10I")
_ENTRY = struct.Struct("<4Q2I")
_INIT_IN, _INIT_OUT = struct.Struct("<IIII"), struct.Struct("<IIIIHHIIHHI28x")
_SETATTR = struct.Struct("<II6Q8I")
_READ = struct.Struct("<QQIIQII")
_HANDLE = struct.Struct("<Q")
_STATFS = struct.Struct("<5Q4I24x")

ROOT = 1
WRITE_BYTES_MAX = 1 << 20
REQUEST_BYTES_MAX = WRITE_BYTES_MAX + 4096
_VERSION = (7, 31)
_ASYNC_READ, _BIG_WRITES, _MAX_PAGES = 1, 1 << 5, 1 << 22
_MODE, _UID, _GID, _SIZE, _ATIME, _MTIME, _ATIME_NOW, _MTIME_NOW = 1, 2, 4, 8, 16, 32, 128, 256
_DATA_ONLY = 1

WITHOUT_RESPONSE = frozenset({2, 36, 42})
"""Requests without a response: FORGET, INTERRUPT and BATCH_FORGET."""
LOOKUP, SETATTR, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, OPEN = 1, 4, 6, 8, 9, 10, 11, 12, 13, 14
READ, WRITE, FSYNC, OPENDIR, FSYNCDIR, CREATE, FALLOCATE, RENAME2 = 15, 16, 20, 27, 30, 35, 43, 45
CHANGING = frozenset({SETATTR, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, WRITE, CREATE, FALLOCATE, RENAME2})
"""Requests that change what is on the disk."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: the operation, its file (node) and the requesting thread (pid)."""

    opcode: int
    unique: int
    node: int
    pid: int
    body: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Parse a request that was read from the device."""
        _, opcode, unique, node, _, _, pid, _, _ = HEADER.unpack_from(data)
        return cls(opcode, unique, node, pid, data[HEADER.size :])

    @property
    def opens_to_write(self) -> bool:
        """Whether this opens a file for writing."""
        return self.opcode == OPEN and bool(_flags(self.body) & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC))


def response(unique: int, error: int, body: bytes = b"") -> bytes:
    """A response in the device's format; error is 0 or an errno."""
    return _RESPONSE.pack(_RESPONSE.size + len(body), -error, unique) + body


@dataclass(slots=True)
class _Node:
    """A file that the kernel knows by a number; lookups counts how often the kernel received that number."""

    descriptor: int
    identity: tuple[int, int]
    lookups: int = 0


@dataclass(slots=True)
class PassThrough:
    """The backing directory as the kernel knows it. Handlers return the body of a response and raise OSError."""

    root: int
    _nodes: dict[int, _Node] = field(default_factory=dict)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    _next: count[int] = field(default_factory=lambda: count(ROOT + 1))
    _listings: dict[int, list[tuple[str, os.stat_result]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        status = os.stat(self.root)
        self._nodes[ROOT] = _Node(self.root, (status.st_dev, status.st_ino), 1)

    def do(self, request: Request) -> bytes:
        """Carry a request out; the body of its response. Raises OSError with the response's error."""
        handler = _HANDLERS.get(request.opcode)
        if handler is None:
            raise OSError(errno.ENOSYS, "not supported")
        return handler(self, request.node, request.body)

    def init(self, _node: int, body: bytes) -> bytes:
        _, _, readahead, offered = _INIT_IN.unpack_from(body)
        flags = offered & (_ASYNC_READ | _BIG_WRITES | _MAX_PAGES)
        return _INIT_OUT.pack(*_VERSION, readahead, flags, 64, 48, WRITE_BYTES_MAX, 1, WRITE_BYTES_MAX >> 12, 0, 0)

    def lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(node, _names(body)[0])

    def forget(self, node: int, body: bytes) -> bytes:
        self._forget(node, *_HANDLE.unpack_from(body))
        return b""

    def batch_forget(self, _node: int, body: bytes) -> bytes:
        for node, times in struct.iter_unpack("<QQ", body[8 : 8 + 16 * struct.unpack_from("<I", body)[0]]):
            self._forget(node, times)
        return b""

    def getattr(self, node: int, _body: bytes) -> bytes:
        return self._attributes(node)

    def setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size, _, atime, mtime, _, a_ns, m_ns, _, mode, _, uid, gid, _ = _SETATTR.unpack_from(body)
        path = self._path(node)
        if valid & _MODE:
            os.chmod(path, stat.S_IMODE(mode))
        if valid & (_UID | _GID):
            os.chown(path, uid if valid & _UID else -1, gid if valid & _GID else -1)
        if valid & _SIZE:
            os.truncate(path, size)
        if valid & (_ATIME | _MTIME):
            now = os.stat(path)
            times = [now.st_atime_ns, now.st_mtime_ns]
            for index, (is_set, is_now, time_ns) in enumerate(
                [(_ATIME, _ATIME_NOW, atime * 10**9 + a_ns), (_MTIME, _MTIME_NOW, mtime * 10**9 + m_ns)]
            ):
                if valid & is_set and not valid & is_now:
                    times[index] = time_ns
            os.utime(path, ns=(times[0], times[1]))
        return self._attributes(node)

    def mkdir(self, node: int, body: bytes) -> bytes:
        mode, umask = struct.unpack_from("<II", body)
        (name, *_) = _names(body[8:])
        os.mkdir(name, mode & ~umask, dir_fd=self._at(node))
        return self._entry(node, name)

    def unlink(self, node: int, body: bytes) -> bytes:
        os.unlink(_names(body)[0], dir_fd=self._at(node))
        return b""

    def rmdir(self, node: int, body: bytes) -> bytes:
        os.rmdir(_names(body)[0], dir_fd=self._at(node))
        return b""

    def rename(self, node: int, body: bytes) -> bytes:
        (target,) = _HANDLE.unpack_from(body)
        return self._rename(node, target, body[8:])

    def rename2(self, node: int, body: bytes) -> bytes:
        target, flags = struct.unpack_from("<QI", body)
        if flags:  # RENAME_EXCHANGE or RENAME_NOREPLACE
            raise OSError(errno.EINVAL, "not supported")
        return self._rename(node, target, body[16:])

    def link(self, node: int, body: bytes) -> bytes:
        source, (name, *_) = self._path(*_HANDLE.unpack_from(body)), _names(body[8:])
        os.link(source, name, dst_dir_fd=self._at(node), follow_symlinks=True)
        return self._entry(node, name)

    def open(self, node: int, body: bytes) -> bytes:
        handle = os.open(self._path(node), _flags(body) & ~os.O_NOFOLLOW)
        return struct.pack("<QII", handle, 0, 0)

    def create(self, node: int, body: bytes) -> bytes:
        flags, mode, umask = struct.unpack_from("<III", body)
        (name, *_) = _names(body[16:])
        handle = os.open(name, flags | os.O_CREAT, mode & ~umask, dir_fd=self._at(node))
        return self._entry(node, name) + struct.pack("<QII", handle, 0, 0)

    def read(self, _node: int, body: bytes) -> bytes:
        handle, offset, size, *_ = _READ.unpack_from(body)
        return os.pread(handle, size, offset)

    def write(self, _node: int, body: bytes) -> bytes:
        handle, offset, size, *_ = _READ.unpack_from(body)
        return struct.pack("<II", os.pwrite(handle, memoryview(body)[_READ.size : _READ.size + size], offset), 0)

    def fsync(self, _node: int, body: bytes) -> bytes:
        handle, flags = struct.unpack_from("<QI", body)
        (os.fdatasync if flags & _DATA_ONLY else os.fsync)(handle)
        return b""

    def fallocate(self, _node: int, body: bytes) -> bytes:
        handle, offset, length, mode = struct.unpack_from("<QQQI", body)
        if mode:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        os.posix_fallocate(handle, offset, length)
        return b""

    def flush(self, _node: int, _body: bytes) -> bytes:
        return b""

    def release(self, _node: int, body: bytes) -> bytes:
        (handle,) = _HANDLE.unpack_from(body)
        self._listings.pop(handle, None)
        os.close(handle)
        return b""

    def opendir(self, node: int, _body: bytes) -> bytes:
        handle = os.open(self._path(node), os.O_RDONLY | os.O_DIRECTORY)
        self._listings[handle] = []
        return struct.pack("<QII", handle, 0, 0)

    def readdir(self, _node: int, body: bytes) -> bytes:
        """Entries from an offset on. The offset indexes a list that is built when reading starts at 0."""
        handle, offset, size, *_ = _READ.unpack_from(body)
        if offset == 0:
            with os.scandir(handle) as entries:
                self._listings[handle] = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        listed = b""
        for index, (name, status) in enumerate(self._listings[handle][offset:], start=offset + 1):
            entry = struct.pack("<QQII", status.st_ino, index, len(os.fsencode(name)), status.st_mode >> 12)
            entry += os.fsencode(name)
            entry += bytes(-len(entry) % 8)
            if len(listed) + len(entry) > size:
                break
            listed += entry
        return listed

    def statfs(self, _node: int, _body: bytes) -> bytes:
        at = os.statvfs(self.root)
        counts = (at.f_blocks, at.f_bfree, at.f_bavail, at.f_files, at.f_ffree)
        return _STATFS.pack(*counts, at.f_bsize, at.f_namemax, at.f_frsize, 0)

    def _at(self, node: int) -> int:
        return self._nodes[node].descriptor

    def _path(self, node: int) -> str:
        """A path that stays valid when the file is renamed. Symbolic links are followed by the kernel before this."""
        return f"/proc/self/fd/{self._at(node)}"

    def _rename(self, node: int, target: int, names: bytes) -> bytes:
        old, new = _names(names)[:2]
        os.rename(old, new, src_dir_fd=self._at(node), dst_dir_fd=self._at(target))
        return b""

    def _entry(self, parent: int, name: bytes) -> bytes:
        """A directory entry with the file's number. Its cache lifetime is zero: the kernel looks it up every time."""
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self._at(parent))
        status = os.stat(descriptor)
        identity = (status.st_dev, status.st_ino)
        number = self._numbers.get(identity)
        if number is None:
            number = self._numbers[identity] = next(self._next)
            self._nodes[number] = _Node(descriptor, identity)
        else:
            os.close(descriptor)
        self._nodes[number].lookups += 1
        return _ENTRY.pack(number, 0, 0, 0, 0, 0) + _packed(status)

    def _forget(self, number: int, times: int) -> None:
        node = self._nodes[number]
        node.lookups -= times
        if node.lookups <= 0 and number != ROOT:
            del self._nodes[number], self._numbers[node.identity]
            os.close(node.descriptor)

    def _attributes(self, node: int) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + _packed(os.stat(self._at(node)))


def _packed(at: os.stat_result) -> bytes:
    times = [divmod(time_ns, 10**9) for time_ns in (at.st_atime_ns, at.st_mtime_ns, at.st_ctime_ns)]
    seconds, rests_ns = zip(*times, strict=True)
    owners = (at.st_mode, at.st_nlink, at.st_uid, at.st_gid, at.st_rdev, at.st_blksize, 0)
    return _ATTRIBUTES.pack(at.st_ino, at.st_size, at.st_blocks, *seconds, *rests_ns, *owners)


def _names(body: bytes) -> list[bytes]:
    return body.split(b"\0")


def _flags(body: bytes) -> int:
    return int(struct.unpack_from("<I", body)[0])


_HANDLERS: Mapping[int, Callable[[PassThrough, int, bytes], bytes]] = {
    LOOKUP: PassThrough.lookup,
    2: PassThrough.forget,
    3: PassThrough.getattr,
    SETATTR: PassThrough.setattr,
    MKDIR: PassThrough.mkdir,
    UNLINK: PassThrough.unlink,
    RMDIR: PassThrough.rmdir,
    RENAME: PassThrough.rename,
    LINK: PassThrough.link,
    OPEN: PassThrough.open,
    READ: PassThrough.read,
    WRITE: PassThrough.write,
    17: PassThrough.statfs,
    18: PassThrough.release,
    FSYNC: PassThrough.fsync,
    25: PassThrough.flush,
    26: PassThrough.init,
    OPENDIR: PassThrough.opendir,
    28: PassThrough.readdir,
    29: PassThrough.release,
    FSYNCDIR: PassThrough.fsync,
    CREATE: PassThrough.create,
    42: PassThrough.batch_forget,
    FALLOCATE: PassThrough.fallocate,
    RENAME2: PassThrough.rename2,
}
