"""The hook: its machine code matches its assembly, and its arithmetic matches Python's."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model import EnvironmentFailure
from nodes.clocks import kernel_vdso
from nodes.clocks.hook import CLOCKS, CODE, HOOK, HOOK_BYTES, LISTING, ClockSetting, ClockSettings
from nodes.clocks.image import Image
from nodes.clocks.kernel_vdso import kernel_image, read_clocks, true_ns

SECOND_NS = 1_000_000_000
YEAR_NS = 31_536_000 * SECOND_NS
READ_NS = 5_000_000

offsets = st.integers(0, 3 * YEAR_NS)
rates = st.floats(0, 10)


def hooked(settings: ClockSettings, **changes: ClockSetting) -> bytes:
    """The kernel's image with the hook and these active settings."""
    hook = bytearray(HOOK)
    for at, patch in settings.patches(changes):  # type: ignore[arg-type]  # clocks by name
        hook[at : at + len(patch)] = patch
    image = kernel_image()
    content = bytearray(image.hooked())
    content[image.hook_at : image.hook_at + HOOK_BYTES] = hook
    return bytes(content)


@pytest.mark.skipif(not shutil.which("as") or not shutil.which("objcopy"), reason="needs an assembler (binutils)")
def test_the_listing_s_machine_code_matches_its_assembly(tmp_path):
    lines = [line.partition("#")[0].rstrip() for line in LISTING.splitlines()]
    assembly = [line if line.endswith(":") else line.partition(" ")[2] for line in lines]
    source = tmp_path / "hook.s"
    source.write_text("\n".join([".intel_syntax noprefix", *assembly, ""]))
    subprocess.run(["as", str(source), "-o", str(tmp_path / "hook.o")], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", "hook.o", "hook.bin"], check=True, cwd=tmp_path)
    assert (tmp_path / "hook.bin").read_bytes() == CODE


@given(offsets, offsets)
def test_the_hook_adds_each_clock_s_offset(realtime_ns, monotonic_ns):
    read = read_clocks(
        hooked(ClockSettings(), realtime=ClockSetting(0, realtime_ns), monotonic=ClockSetting(0, monotonic_ns))
    )
    assert read["realtime"].offset_ns == pytest.approx(realtime_ns, abs=READ_NS)
    assert read["monotonic"].offset_ns == pytest.approx(monotonic_ns, abs=READ_NS)


@given(st.sampled_from(CLOCKS), rates, st.integers(0, 86_400 * SECOND_NS))
def test_the_hook_s_rate_matches_python_s(clock, rate, since_ns):
    setting = ClockSetting(offset_ns=YEAR_NS).at_rate(rate, true_ns(clock) - since_ns)
    read = read_clocks(hooked(ClockSettings(), **{clock: setting}))[clock]
    assert read.offset_ns == pytest.approx(setting.offset_at(read.true_ns), abs=10 * READ_NS)


def test_no_clock_shows_a_time_before_zero():
    assert read_clocks(hooked(ClockSettings(), monotonic=ClockSetting(0, -100 * YEAR_NS)))["monotonic"].shown_ns == 0


@given(st.integers(0, 255), offsets, offsets)
def test_settings_are_read_as_written_and_the_other_clock_keeps_its_own(version, first_ns, second_ns):
    hook = bytearray(HOOK)
    settings = ClockSettings(version)
    for changes in ({"realtime": ClockSetting(1, first_ns, -3)}, {"monotonic": ClockSetting(2, second_ns, 5)}):
        for at, patch in settings.patches(changes):
            hook[at : at + len(patch)] = patch
        settings = ClockSettings.read(bytes(hook))
    assert settings.version == (version + 2) % 256
    assert settings.clocks == {"realtime": ClockSetting(1, first_ns, -3), "monotonic": ClockSetting(2, second_ns, 5)}


@given(st.integers(0, 255), offsets)
def test_the_active_settings_change_only_with_the_last_write(version, offset_ns):
    hook = bytearray(HOOK)
    (at, slot), (version_at, _) = ClockSettings(version).patches({"realtime": ClockSetting(0, offset_ns)})
    hook[version_at] = version
    before = ClockSettings.read(bytes(hook))
    hook[at : at + len(slot)] = slot
    assert ClockSettings.read(bytes(hook)) == before


def test_an_image_without_space_for_the_hook_is_rejected_with_its_free_bytes():
    image = kernel_image()
    with pytest.raises(EnvironmentFailure, match=f"ends with 100 unused bytes, {HOOK_BYTES} are needed"):
        Image.of(image.pristine[: image.hook_at + 100])


def test_an_image_without_the_clock_functions_is_rejected():
    with pytest.raises(EnvironmentFailure, match="no __vdso_clock_gettime, __vdso_gettimeofday, __vdso_time"):
        Image.of(kernel_image().pristine.replace(b"__vdso_", b"__abcd_"))


def test_restoring_the_originals_restores_the_image():
    image = kernel_image()
    restored = bytearray(image.hooked())
    assert image.is_hooked(bytes(restored))
    assert not image.is_untouched(bytes(restored))
    for at, original in image.originals().items():
        restored[at : at + len(original)] = original
    assert image.is_untouched(bytes(restored))
    assert bytes(restored[: image.hook_at]) == image.pristine[: image.hook_at]


def test_another_machine_is_reported_with_the_reason(monkeypatch):
    kernel_image()
    monkeypatch.setattr(kernel_vdso.platform, "machine", lambda: "aarch64")
    with pytest.raises(EnvironmentFailure, match="expected Linux on x86_64, got Linux on aarch64"):
        kernel_image.__wrapped__()
