"""Unsigned varints: seven bits per byte, least significant first.

Record batches (as zig-zag numbers) and the records of the metadata log contain them.
"""

from __future__ import annotations


def varint(number: int) -> bytes:
    """The varint of a number, which is not negative."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at a position, and the position after it. Raises IndexError if data ends before it does."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7


def read_zigzag(data: bytes, position: int) -> tuple[int, int]:
    """The signed number at a position, and the position after it. Raises IndexError if data ends before it does."""
    number, position = read_varint(data, position)
    return (number >> 1) ^ -(number & 1), position
