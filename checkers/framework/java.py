"""Starts Spark's Java machine in a thread, and ends it if the process exits before Java is up.

    java = JavaStart(conf)
    …                                   # Java starts meanwhile
    gateway = java.gateway()

Java's standard error goes to an anonymous file and never to the user's terminal; if Java does not start, the error
quotes its last line. The thread is a daemon, so an exit does not wait for Java: it terminates it.

Java's temporary files are in one directory. Java removes it when it ends, once it is up; before, `terminate` does: a
Spark that ends while it starts can leave directories behind.

Contains the start of the process. Spark's settings are in session.py.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from subprocess import Popen, TimeoutExpired
from tempfile import TemporaryFile, mkdtemp
from threading import Thread
from typing import Final

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from harness.model import EnvironmentFailure

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
END_SECONDS_MAX: Final = 5.0
END_CHECK_SECONDS: Final = 0.02


class JavaStart:
    """A Java machine that is being started; Java is the leader of a process group of its own."""

    def __init__(self, conf: SparkConf) -> None:
        """Start Java; returns at once."""
        self._stderr = TemporaryFile("w+")  # noqa: SIM115 - open as long as Java is
        self._directory = mkdtemp(prefix="spark-")
        options = conf.get(JAVA_OPTIONS, "")
        conf.set(JAVA_OPTIONS, f'{options} "-Djava.io.tmpdir={self._directory}"'.lstrip())
        self.is_ended = False
        self._launched: Future[JavaGateway] = Future()
        self._thread = Thread(target=self._launch, args=(conf,), name="java-start", daemon=True)
        self._thread.start()
        atexit.register(self.terminate)

    def gateway(self) -> JavaGateway:
        """Wait until Java can be called. Raises EnvironmentFailure if it did not start."""
        try:
            return self._launched.result()
        except PySparkRuntimeError as failure:
            self._stderr.seek(0)
            lines = self._stderr.read().strip().splitlines() or [str(failure)]
            raise EnvironmentFailure(f"Spark needs Java 17 or newer, and it did not start: {lines[-1]}") from failure

    def is_up(self) -> None:
        """Java has started: from now on it ends by itself when this process does, and removes its directory."""
        java = self.gateway().jvm
        java.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(java.java.io.File(self._directory))
        atexit.unregister(self.terminate)

    def terminate(self) -> None:
        """End Java, at whatever point of its start, and wait for the thread that starts it."""
        self.is_ended = True
        logging.disable()  # py4j reports every lost connection, some by the root logger
        deadline = time.monotonic() + END_SECONDS_MAX
        self._signal()
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._signal()
            self._thread.join(END_CHECK_SECONDS)
        self._wait()
        rmtree(self._directory, ignore_errors=True)

    def _launch(self, conf: SparkConf) -> None:
        try:
            self._launched.set_result(launch_gateway(conf, {"stderr": self._stderr, "process_group": 0}))
        except BaseException as error:  # noqa: BLE001 - it is raised where the gateway is needed
            self._launched.set_exception(error)

    def _wait(self) -> None:
        if (process := self._process()) is not None:
            with suppress(TimeoutExpired):
                process.wait(END_SECONDS_MAX)

    def _signal(self) -> None:
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGTERM)

    def _pids(self) -> list[int]:
        """Java's process: the one child of the thread while it runs; PySpark names it only when Java is up."""
        if self._thread.is_alive():
            with suppress(OSError):  # a system without this file: Java ends when its standard input does
                return [int(pid) for pid in _children_file(self._thread).read_text().split()]
            return []
        process = self._process()
        return [process.pid] if process is not None else []

    def _process(self) -> Popen[bytes] | None:
        launched = self._launched.done() and self._launched.exception() is None
        return self._launched.result().proc if launched else None


def _children_file(thread: Thread) -> Path:
    return Path(f"/proc/self/task/{thread.native_id}/children")
