"""The switch's sockets on the ports of a bridge: read the frames of a node to certain targets, send frames to a node.

Contains AF_PACKET sockets (packet(7)) and their filter. Does not process frames.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress

from harness.model import EnvironmentFailure

FRAME_BYTES_MAX = 65_600
TARGET_ADDRESS = slice(30, 34)
"""The position of the IPv4 target address in an Ethernet frame."""

# Sockets for all protocols, filtered to IPv4: a bridge consumes frames before sockets of a single protocol see them.
_ETH_P_ALL, _ETH_P_IP = 0x0003, 0x0800
_ETHER_TYPE_AT = 12
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE, _SO_SNDBUFFORCE = 26, 33, 32
_BUFFER_BYTES = 8 << 20
# Classic BPF (linux/filter.h): load a word or half of one, jump if equal, return.
_LOAD_WORD, _LOAD_HALF, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x28, 0x15, 0x06


def reading_port(name: str) -> socket.socket:
    """A socket that reads IPv4 frames that arrive at a port; initially none (see read_only_to)."""
    reading = _packet_socket(name)
    read_only_to(reading, [])
    return _bound(reading, name, _ETH_P_ALL)


def read_only_to(reading: socket.socket, targets: Iterable[str]) -> None:
    """Make the socket read only frames to these addresses."""
    instructions = _only_to(sorted(targets))
    program = ctypes.create_string_buffer(b"".join(instructions))
    filtering = struct.pack("HP", len(instructions), ctypes.addressof(program))
    reading.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filtering)


def sending_port(name: str) -> socket.socket:
    """A socket that sends frames out of a port and reads nothing."""
    return _bound(_packet_socket(name), name, 0)


def _bound(unbound: socket.socket, name: str, protocol: int) -> socket.socket:
    try:
        unbound.bind((name, protocol))
    except OSError as error:
        unbound.close()
        raise EnvironmentFailure(f"opening bridge port {name}: {error.strerror}") from error
    return unbound


def _packet_socket(name: str) -> socket.socket:
    """A packet socket without a protocol; it reads nothing until it is bound."""
    try:
        unbound = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        unbound.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    except OSError as error:
        raise EnvironmentFailure(f"opening a packet socket for {name}: {error.strerror}") from error
    unbound.setblocking(False)
    for option in (_SO_RCVBUFFORCE, _SO_SNDBUFFORCE):
        with suppress(PermissionError):  # some kernels allow larger buffers only to root of the initial user namespace
            unbound.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    return unbound


def _only_to(addresses: list[str]) -> list[bytes]:
    """A filter that accepts IPv4 frames to these addresses. Jump offsets count from the next instruction."""
    targets = [int.from_bytes(socket.inet_aton(address), "big") for address in addresses]
    jumps = [_instruction(_JUMP_IF_EQUAL, len(targets) - index, 0, value) for index, value in enumerate(targets)]
    drop, accept = _instruction(_RETURN, 0, 0, 0), _instruction(_RETURN, 0, 0, FRAME_BYTES_MAX)
    is_ip = [
        _instruction(_LOAD_HALF, 0, 0, _ETHER_TYPE_AT),
        _instruction(_JUMP_IF_EQUAL, 0, len(targets) + 1, _ETH_P_IP),
    ]
    return [*is_ip, _instruction(_LOAD_WORD, 0, 0, TARGET_ADDRESS.start), *jumps, drop, accept]


def _instruction(code: int, jump_true: int, jump_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)
