"""The hook: the code that replaces the vDSO's clock functions, and its settings.

LISTING is the assembly with its machine code, so no assembler is needed at run time; a test assembles it again. The
code is position-independent. Its functions take the same arguments as those they replace.

The settings follow the code: a version byte, padded to eight bytes, and two slots. The version's lowest bit selects the
active slot. A slot has origin_ns, offset_ns and gain for each clock; at true time t the clock shows t + offset_ns + (t
- origin_ns) * gain / 2^32. A writer fills the inactive slot and then increments the version, a single byte. A reader
that sees the version change starts again. So no reader sees a partial change, even if the writer dies.

Contains the hook as bytes. Does not access processes or their memory.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.model.hosts import Clock

LISTING: Final = """
clock_gettime:
b8e4000000       mov eax, 228                    # the system call: the kernel's own time
0f05             syscall
85c0             test eax, eax
753f             jnz gettime_done
4531c0           xor r8d, r8d                    # the settings of the realtime clock
85ff             test edi, edi                   # CLOCK_REALTIME
7415             jz gettime_move
83ff05           cmp edi, 5                      # CLOCK_REALTIME_COARSE
7410             jz gettime_move
41b818000000     mov r8d, 24                     # the settings of the monotonic clock
83ff01           cmp edi, 1                      # CLOCK_MONOTONIC
7405             jz gettime_move
83ff06           cmp edi, 6                      # CLOCK_MONOTONIC_COARSE
7523             jnz gettime_done
gettime_move:
48690600ca9a3b   imul rax, [rsi], 1000000000
48034608         add rax, [rsi + 8]
e883000000       call shown
31d2             xor edx, edx
b900ca9a3b       mov ecx, 1000000000
48f7f1           div rcx
488906           mov [rsi], rax
48895608         mov [rsi + 8], rdx
31c0             xor eax, eax
gettime_done:
c3               ret
gettimeofday:
b860000000       mov eax, 96
0f05             syscall
85c0             test eax, eax
753f             jnz timeofday_done
4885ff           test rdi, rdi                   # null if only the time zone is requested
743a             jz timeofday_done
4889fe           mov rsi, rdi
48690640420f00   imul rax, [rsi], 1000000
48034608         add rax, [rsi + 8]
4869c0e8030000   imul rax, rax, 1000
4531c0           xor r8d, r8d
e842000000       call shown
31d2             xor edx, edx
b9e8030000       mov ecx, 1000
48f7f1           div rcx
31d2             xor edx, edx
b940420f00       mov ecx, 1000000
48f7f1           div rcx
488906           mov [rsi], rax
48895608         mov [rsi + 8], rdx
31c0             xor eax, eax
timeofday_done:
c3               ret
time:
57               push rdi
4883ec10         sub rsp, 16
bf05000000       mov edi, 5
4889e6           mov rsi, rsp
e858ffffff       call clock_gettime
488b0424         mov rax, [rsp]
4883c410         add rsp, 16
5f               pop rdi
4885ff           test rdi, rdi
7403             jz time_done
488907           mov [rdi], rax
time_done:
c3               ret
shown:                              # in: rax true ns, r8 offset of the settings; out: rax ns to show; clobbers rdi
4c8d0d3f000000   lea r9, [rip + settings]
410fb609         movzx ecx, byte ptr [r9]
89ca             mov edx, ecx
83e201           and edx, 1
6bd230           imul edx, edx, 48
4c01c2           add rdx, r8
4d8b541108       mov r10, [r9 + rdx + 8]         # origin_ns
4d8b5c1110       mov r11, [r9 + rdx + 16]        # offset_ns
498b7c1118       mov rdi, [r9 + rdx + 24]        # gain, in units of 2^-32
413a09           cmp cl, [r9]                    # start again if the version changed
75d6             jne shown
4989c0           mov r8, rax
4c29d0           sub rax, r10
48f7ef           imul rdi
480facd020       shrd rax, rdx, 32
4c01c0           add rax, r8
4c01d8           add rax, r11
7902             jns shown_done
31c0             xor eax, eax                    # no clock shows a time before zero
shown_done:
c3               ret
0f1f00           .balign 16, 0x90
settings:
"""

CLOCKS: Final[tuple[Clock, ...]] = ("realtime", "monotonic")
"""The clocks, in the order of their settings in a slot."""

_GAIN_ONE = 1 << 32
_SETTING = struct.Struct("<qqq")
_SLOT_BYTES = _SETTING.size * len(CLOCKS)
_VERSION_BYTES = 8


def _assembled(listing: str) -> tuple[bytes, Mapping[str, int]]:
    """The listing's machine code, and the offset of each label."""
    code = bytearray()
    labels: dict[str, int] = {}
    for line in listing.split("\n"):
        label = re.match(r"(\w+):", line)
        if label:
            labels[label[1]] = len(code)
        else:
            code += bytes.fromhex(line.partition(" ")[0])
    return bytes(code), labels


CODE, _LABELS = _assembled(LISTING)

ENTRIES: Final[Mapping[str, int]] = {
    f"__vdso_{name}": _LABELS[name] for name in ("clock_gettime", "gettimeofday", "time")
}
"""The vDSO functions that the hook replaces, and the offset of each replacement in the hook."""

VERSION_AT: Final = _LABELS["settings"]
HOOK_BYTES: Final = VERSION_AT + _VERSION_BYTES + 2 * _SLOT_BYTES


@dataclass(frozen=True, slots=True)
class ClockSetting:
    """How one clock is skewed: by offset_ns at true time origin_ns, plus gain / 2^32 of the time since then."""

    origin_ns: int = 0
    offset_ns: int = 0
    gain: int = 0

    def at_rate(self, rate: float, true_ns: int) -> ClockSetting:
        """The setting that continues from the clock's time at true_ns, at this rate (1 is normal)."""
        return ClockSetting(true_ns, self.offset_at(true_ns), round((rate - 1) * _GAIN_ONE))

    def offset_at(self, true_ns: int) -> int:
        """The clock's offset from the true time, at true time true_ns."""
        return self.offset_ns + ((true_ns - self.origin_ns) * self.gain >> 32)


@dataclass(frozen=True, slots=True)
class ClockSettings:
    """The version and the active settings."""

    version: int = 0
    clocks: Mapping[Clock, ClockSetting] = field(default_factory=lambda: dict.fromkeys(CLOCKS, ClockSetting()))

    @staticmethod
    def read(hook: bytes) -> ClockSettings:
        """Parse the settings in a hook."""
        version = hook[VERSION_AT]
        at = _slot_at(version)
        values = _SETTING.iter_unpack(hook[at : at + _SLOT_BYTES])
        return ClockSettings(
            version, {clock: ClockSetting(*value) for clock, value in zip(CLOCKS, values, strict=True)}
        )

    def patches(self, changes: Mapping[Clock, ClockSetting]) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
        """The two writes, in order, that activate changes: each an offset in the hook and its bytes."""
        settings = [{**self.clocks, **changes}[clock] for clock in CLOCKS]
        version = (self.version + 1) % 256
        slot = b"".join(_SETTING.pack(setting.origin_ns, setting.offset_ns, setting.gain) for setting in settings)
        return (_slot_at(version), slot), (VERSION_AT, bytes([version]))


def _slot_at(version: int) -> int:
    return VERSION_AT + _VERSION_BYTES + version % 2 * _SLOT_BYTES


HOOK: Final = CODE + bytes(HOOK_BYTES - len(CODE))
"""The hook as it is installed: every clock shows the true time."""
