"""The vDSO as an image: where its functions are, where it has room, and what it looks like with the hook in it.

What may live here: pure functions on the image's bytes. What may not: whose memory they come from, or go to.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from harness.model import EnvironmentFailure
from nodes.clocks.hook import CODE, ENTRIES, HOOK, HOOK_BYTES

_SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
_DYNAMIC_SYMBOLS = 11  # SHT_DYNSYM
_ALIGNMENT = 64
JUMP_BYTES = 5


@dataclass(frozen=True, slots=True)
class Image:
    """A kernel's vDSO as it maps it, and the place that the hook takes in it."""

    pristine: bytes
    functions: dict[str, int]
    hook_at: int

    @staticmethod
    def of(pristine: bytes) -> Image:
        """Raises EnvironmentFailure where a clock function or the room for the hook is missing."""
        functions, end = _read_elf(pristine)
        missing = sorted(ENTRIES.keys() - functions.keys())
        if missing:
            raise EnvironmentFailure(f"moving clocks: this kernel's vDSO has no {', '.join(missing)}")
        hook_at = -(-max(end, len(pristine.rstrip(b"\0"))) // _ALIGNMENT) * _ALIGNMENT
        if hook_at + HOOK_BYTES > len(pristine):
            room = len(pristine) - hook_at
            raise EnvironmentFailure(
                f"moving clocks: this kernel's vDSO ends with {room} unused bytes, {HOOK_BYTES} are needed"
            )
        return Image(pristine, {name: functions[name] for name in ENTRIES}, hook_at)

    def jumps(self) -> dict[int, bytes]:
        """The instructions that lead each function to the hook, by the function's place."""
        places = {self.functions[name]: self.hook_at + entry for name, entry in ENTRIES.items()}
        return {at: b"\xe9" + struct.pack("<i", to - at - JUMP_BYTES) for at, to in places.items()}

    def originals(self) -> dict[int, bytes]:
        """What stands where the jumps go."""
        return {at: self.pristine[at : at + JUMP_BYTES] for at in self.functions.values()}

    def hooked(self) -> bytes:
        """The image with the hook in place, every clock true."""
        image = bytearray(self.pristine)
        for at, patch in {self.hook_at: HOOK, **self.jumps()}.items():
            image[at : at + len(patch)] = patch
        return bytes(image)

    def is_untouched(self, image: bytes) -> bool:
        """Whether an image's functions are the kernel's; a hook that nothing leads to may still be in its end."""
        return image[: self.hook_at] == self.pristine[: self.hook_at]

    def is_hooked(self, image: bytes) -> bool:
        """Whether an image is this one with the hook in place, whatever its settings."""
        settings_at = self.hook_at + len(CODE)
        return image[:settings_at] == self.hooked()[:settings_at]


def _read_elf(image: bytes) -> tuple[dict[str, int], int]:
    """The dynamic symbols with their places, and where the file's last part, the section headers, ends."""
    if image[:5] != b"\x7fELF\x02":
        raise EnvironmentFailure("moving clocks: expected a 64-bit ELF image as the vDSO")
    (sections_at,) = struct.unpack_from("<Q", image, 40)
    entry_bytes, count = struct.unpack_from("<HH", image, 58)
    sections = [_SECTION.unpack_from(image, sections_at + index * entry_bytes) for index in range(count)]
    functions: dict[str, int] = {}
    for _, kind, _, _, offset, size, strings, *_ in sections:
        if kind == _DYNAMIC_SYMBOLS:
            names_at = sections[strings][4]
            for name, _, _, _, value, _ in _SYMBOL.iter_unpack(image[offset : offset + size]):
                begin = names_at + name
                functions[image[begin : image.index(b"\0", begin)].decode()] = value
    return functions, sections_at + count * entry_bytes
