"""Numbers of things in English text: 1 node, 3 nodes, 1,204 keys."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """The number and the noun, in the plural unless the number is 1; without a plural, the noun with an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or f'{noun}s'}"
