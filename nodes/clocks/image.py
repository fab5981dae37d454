"""The vDSO image: the addresses of its functions, its unused end, and the image with the hook installed.

Contains pure functions of the image's bytes. Does not access process memory.
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
    """The vDSO as the kernel maps it, and the offset of the hook in it."""

    pristine: bytes
    functions: dict[str, int]
    hook_at: int

    @staticmethod
    def of(pristine: bytes) -> Image:
        """Parse a vDSO. Raises EnvironmentFailure if a clock function or the space for the hook is missing."""
        functions, end = _read_elf(pristine)
        missing = sorted(ENTRIES.keys() - functions.keys())
        if missing:
            raise EnvironmentFailure(f"skewing clocks: this kernel's vDSO has no {', '.join(missing)}")
        hook_at = -(-max(end, len(pristine.rstrip(b"\0"))) // _ALIGNMENT) * _ALIGNMENT
        if hook_at + HOOK_BYTES > len(pristine):
            unused = len(pristine) - hook_at
            raise EnvironmentFailure(
                f"skewing clocks: this kernel's vDSO ends with {unused} unused bytes, {HOOK_BYTES} are needed"
            )
        return Image(pristine, {name: functions[name] for name in ENTRIES}, hook_at)

    def jumps(self) -> dict[int, bytes]:
        """The jump instructions from each function to the hook, by the function's offset."""
        targets = {self.functions[name]: self.hook_at + entry for name, entry in ENTRIES.items()}
        return {at: b"\xe9" + struct.pack("<i", to - at - JUMP_BYTES) for at, to in targets.items()}

    def originals(self) -> dict[int, bytes]:
        """The original bytes that the jumps replace, by offset."""
        return {at: self.pristine[at : at + JUMP_BYTES] for at in self.functions.values()}

    def hooked(self) -> bytes:
        """The image with the hook installed and every clock showing the true time."""
        image = bytearray(self.pristine)
        for at, patch in {self.hook_at: HOOK, **self.jumps()}.items():
            image[at : at + len(patch)] = patch
        return bytes(image)

    def is_untouched(self, image: bytes) -> bool:
        """Whether an image's functions are the kernel's; an unused hook may remain at its end."""
        return image[: self.hook_at] == self.pristine[: self.hook_at]

    def is_hooked(self, image: bytes) -> bool:
        """Whether an image is this one with the hook installed, with any settings."""
        settings_at = self.hook_at + len(CODE)
        return image[:settings_at] == self.hooked()[:settings_at]


def _read_elf(image: bytes) -> tuple[dict[str, int], int]:
    """The dynamic symbols with their offsets, and the end of the section headers, the last part of the file."""
    if image[:5] != b"\x7fELF\x02":
        raise EnvironmentFailure("skewing clocks: expected the vDSO to be a 64-bit ELF image")
    (sections_at,) = struct.unpack_from("<Q", image, 40)
    entry_bytes, count = struct.unpack_from("<HH", image, 58)
    sections = [_SECTION.unpack_from(image, sections_at + index * entry_bytes) for index in range(count)]
    functions: dict[str, int] = {}
    for _, kind, _, _, offset, size, strings, *_ in sections:
        if kind == _DYNAMIC_SYMBOLS:
            names_at = sections[strings][4]
            for name, _, _, _, value, _ in _SYMBOL.iter_unpack(image[offset : offset + size]):
                start = names_at + name
                functions[image[start : image.index(b"\0", start)].decode()] = value
    return functions, sections_at + count * entry_bytes
