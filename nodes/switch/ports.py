"""The switch's sockets on the ports of a bridge: read what a node sends to some others, send to a node.

What may live here: AF_PACKET sockets (packet(7)) and their filter. What may not: what is done with frames.
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
"""Where an Ethernet frame holds the IPv4 address that it goes to."""

# All protocols, of which the filter leaves IPv4: a bridge takes a frame away before sockets of one protocol see it.
_ETH_P_ALL, _ETH_P_IP = 0x0003, 0x0800
_ETHER_TYPE_AT = 12
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE, _SO_SNDBUFFORCE = 26, 33, 32
_BUFFER_BYTES = 8 << 20
# Classic BPF (linux/filter.h): load a word or half of one, jump if equal, return.
_LOAD_WORD, _LOAD_HALF, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x28, 0x15, 0x06


def reading_port(name: str) -> socket.socket:
    """A socket that reads the IPv4 frames which come in at a port; none, until it is told which."""
    reading = _packet_socket(name)
    read_only_to(reading, [])
    return _bound(reading, name, _ETH_P_ALL)


def read_only_to(reading: socket.socket, targets: Iterable[str]) -> None:
    """From now on the socket reads what goes to these addresses."""
    instructions = _only_to(sorted(targets))
    program = ctypes.create_string_buffer(b"".join(instructions))
    filtering = struct.pack("HP", len(instructions), ctypes.addressof(program))
    reading.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filtering)


def sending_port(name: str) -> socket.socket:
    """A socket that sends frames out of a port, and reads nothing."""
    return _bound(_packet_socket(name), name, 0)


def _bound(opened: socket.socket, name: str, protocol: int) -> socket.socket:
    try:
        opened.bind((name, protocol))
    except OSError as error:
        opened.close()
        raise EnvironmentFailure(f"opening the port {name} for packets: {error.strerror}") from error
    return opened


def _packet_socket(name: str) -> socket.socket:
    """Of no protocol yet: it reads nothing until it is bound to one."""
    try:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        made.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    except OSError as error:
        raise EnvironmentFailure(f"opening a packet socket for {name}: {error.strerror}") from error
    made.setblocking(False)
    for option in (_SO_RCVBUFFORCE, _SO_SNDBUFFORCE):
        with suppress(PermissionError):  # some kernels leave buffers above the usual to the machine's own root
            made.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    return made


def _only_to(addresses: list[str]) -> list[bytes]:
    """A filter that lets IPv4 frames to these addresses pass. A jump's targets count from the next instruction."""
    wanted = [int.from_bytes(socket.inet_aton(address), "big") for address in addresses]
    jumps = [_instruction(_JUMP_IF_EQUAL, len(wanted) - place, 0, value) for place, value in enumerate(wanted)]
    drop, accept = _instruction(_RETURN, 0, 0, 0), _instruction(_RETURN, 0, 0, FRAME_BYTES_MAX)
    is_ip = [
        _instruction(_LOAD_HALF, 0, 0, _ETHER_TYPE_AT),
        _instruction(_JUMP_IF_EQUAL, 0, len(wanted) + 1, _ETH_P_IP),
    ]
    return [*is_ip, _instruction(_LOAD_WORD, 0, 0, TARGET_ADDRESS.start), *jumps, drop, accept]


def _instruction(code: int, jump_true: int, jump_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)
