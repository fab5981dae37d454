"""The hook itself: its bytes are its assembly's, and its arithmetic, run on the processor, is what Python says."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model import EnvironmentFailure
from nodes.clocks import own
from nodes.clocks.hook import CLOCKS, CODE, HOOK, HOOK_BYTES, LISTING, ClockSetting, ClockSettings
from nodes.clocks.image import Image
from nodes.clocks.own import kernel_image, read_clocks, true_ns

SECOND_NS = 1_000_000_000
YEAR_NS = 31_536_000 * SECOND_NS
READ_NS = 5_000_000

offsets = st.integers(0, 3 * YEAR_NS)
rates = st.floats(0, 10)


def hooked(settings: ClockSettings, **changes: ClockSetting) -> bytes:
    """The kernel's image with the hook and these settings in force."""
    hook = bytearray(HOOK)
    for at, patch in settings.followed_by(changes):  # type: ignore[arg-type]  # clocks by name
        hook[at : at + len(patch)] = patch
    image = kernel_image()
    whole = bytearray(image.hooked())
    whole[image.hook_at : image.hook_at + HOOK_BYTES] = hook
    return bytes(whole)


@pytest.mark.skipif(not shutil.which("as") or not shutil.which("objcopy"), reason="no assembler here (binutils)")
def test_the_listing_s_bytes_are_what_its_assembly_assembles_to(tmp_path):
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
def test_the_hook_s_rate_is_what_python_says(clock, rate, since_ns):
    setting = ClockSetting(offset_ns=YEAR_NS).at_rate(rate, true_ns(clock) - since_ns)
    read = read_clocks(hooked(ClockSettings(), **{clock: setting}))[clock]
    assert read.offset_ns == pytest.approx(setting.offset_at(read.true_ns), abs=10 * READ_NS)


def test_no_clock_shows_a_time_before_zero():
    assert read_clocks(hooked(ClockSettings(), monotonic=ClockSetting(0, -100 * YEAR_NS)))["monotonic"].shown_ns == 0


@given(st.integers(0, 255), offsets, offsets)
def test_settings_are_read_as_written_and_the_other_clock_s_stay(version, first_ns, second_ns):
    hook = bytearray(HOOK)
    settings = ClockSettings(version)
    for changes in ({"realtime": ClockSetting(1, first_ns, -3)}, {"monotonic": ClockSetting(2, second_ns, 5)}):
        for at, patch in settings.followed_by(changes):
            hook[at : at + len(patch)] = patch
        settings = ClockSettings.read(bytes(hook))
    assert settings.version == (version + 2) % 256
    assert settings.clocks == {"realtime": ClockSetting(1, first_ns, -3), "monotonic": ClockSetting(2, second_ns, 5)}


@given(st.integers(0, 255), offsets)
def test_until_the_last_write_the_settings_in_force_stay(version, offset_ns):
    hook = bytearray(HOOK)
    (at, slot), (version_at, _) = ClockSettings(version).followed_by({"realtime": ClockSetting(0, offset_ns)})
    hook[version_at] = version
    before = ClockSettings.read(bytes(hook))
    hook[at : at + len(slot)] = slot
    assert ClockSettings.read(bytes(hook)) == before


def test_an_image_without_room_is_refused_with_the_room_it_has():
    image = kernel_image()
    with pytest.raises(EnvironmentFailure, match=f"ends with 100 unused bytes, {HOOK_BYTES} are needed"):
        Image.of(image.pristine[: image.hook_at + 100])


def test_an_image_without_the_clock_functions_is_refused():
    with pytest.raises(EnvironmentFailure, match="no __vdso_clock_gettime, __vdso_gettimeofday, __vdso_time"):
        Image.of(kernel_image().pristine.replace(b"__vdso_", b"__abcd_"))


def test_the_image_that_comes_back_is_the_one_that_was():
    image = kernel_image()
    back = bytearray(image.hooked())
    assert image.is_hooked(bytes(back))
    assert not image.is_untouched(bytes(back))
    for at, original in image.originals().items():
        back[at : at + len(original)] = original
    assert image.is_untouched(bytes(back))
    assert bytes(back[: image.hook_at]) == image.pristine[: image.hook_at]


def test_on_another_machine_the_reason_is_told(monkeypatch):
    kernel_image()
    monkeypatch.setattr(own.platform, "machine", lambda: "aarch64")
    with pytest.raises(EnvironmentFailure, match="here is Linux on aarch64; use a machine with Linux on x86_64"):
        kernel_image.__wrapped__()
