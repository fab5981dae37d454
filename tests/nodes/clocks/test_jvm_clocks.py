"""Clocks of a running JVM, skewed while two of its threads read them without pause."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from nodes.clocks.kernel_vdso import kernel_image
from nodes.clocks.process_clocks import ProcessClocks
from nodes.clocks.target import Target
from tests.support import SUPPORT

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not shutil.which("java"), reason="needs java"),
]

SOURCE = SUPPORT / "nodes" / "ClockReader.java"
SMALL_JVM = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
SECOND_NS = 1_000_000_000
NEAR = 0.3

Offsets = Callable[[], tuple[float, float]]


@pytest.fixture
def jvm() -> Iterator[subprocess.Popen[str]]:
    argv = ["java", *SMALL_JVM, str(SOURCE)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.fixture
def offsets(jvm) -> Offsets:
    """How far currentTimeMillis and nanoTime are ahead, in seconds."""

    def read() -> tuple[float, float]:
        print(file=jvm.stdin, flush=True)
        realtime, monotonic = map(float, jvm.stdout.readline().split())
        return realtime - time.time(), monotonic - time.monotonic()

    return read


def test_a_jvm_that_reads_its_clocks_without_pause_sees_every_skew_and_reset(jvm, offsets, perform):
    clocks = ProcessClocks(lambda _node: jvm.pid)
    assert offsets() == pytest.approx((0, 0), abs=NEAR)
    for number in range(20):
        perform(clocks.skew(1, ["realtime"], -9 * SECOND_NS), clocks.skew(1, ["monotonic"], number * SECOND_NS))
        assert offsets() == pytest.approx((-9, number), abs=NEAR)
        perform(clocks.reset(1))
        assert offsets() == pytest.approx((0, 0), abs=NEAR)
    assert Target(jvm.pid, "jvm").read() == kernel_image().pristine
    assert jvm.poll() is None
