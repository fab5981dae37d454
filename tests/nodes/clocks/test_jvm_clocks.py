"""Clocks of a running JVM, moved while two of its threads do nothing but read them."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from nodes.clocks.own import kernel_image
from nodes.clocks.process_clocks import ProcessClocks
from nodes.clocks.target import Target
from tests.support import SUPPORT

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not shutil.which("java"), reason="no java here"),
]

SOURCE = SUPPORT / "nodes" / "Timers.java"
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

    def ask() -> tuple[float, float]:
        print(file=jvm.stdin, flush=True)
        realtime, monotonic = map(float, jvm.stdout.readline().split())
        return realtime - time.time(), monotonic - time.monotonic()

    return ask


def test_a_jvm_that_reads_its_clocks_without_end_sees_the_leaps_and_their_end(jvm, offsets, perform):
    clocks = ProcessClocks(lambda _node: jvm.pid)
    assert offsets() == pytest.approx((0, 0), abs=NEAR)
    for number in range(20):
        perform(clocks.skew(1, ["realtime"], -9 * SECOND_NS), clocks.skew(1, ["monotonic"], number * SECOND_NS))
        assert offsets() == pytest.approx((-9, number), abs=NEAR)
        perform(clocks.reset(1))
        assert offsets() == pytest.approx((0, 0), abs=NEAR)
    assert Target(jvm.pid, "jvm").read() == kernel_image().pristine
    assert jvm.poll() is None
