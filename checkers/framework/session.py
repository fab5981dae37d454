"""Starts the Spark session that the checks run on: quiet, on loopback only, and with a short start.

Most of a small check's time is the start of a Java machine, so the settings suit a short run: the serial collector, the
first compiler tier only (unless the input is large), no web page, few shuffle partitions, no adaptive re-planning. When
only this machine has to reach Java, it binds to 127.0.0.1, so the checks run on a machine without any route.

    spark = spark_session()                                # this machine, every core
    spark = spark_session(master="spark://host:7077")      # a cluster, to which this package is sent

If checkers/archive.py has written an archive of loaded classes, the session maps it instead of loading the classes
again. Without it the session works, but starts later.

Contains the session's settings. The start of Java is java.py. It knows nothing of histories or checks.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from threading import Lock
from zipfile import ZipFile

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from checkers.framework.java import JavaStart

PACKAGES = Path(__file__).parents[2]
SHUFFLE_PARTITIONS = 4
QUIET = "-XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=240m -Xshare:auto -Xlog:disable"
"""MetaspaceSize: no collection of classes while they are being loaded. ReservedCodeCacheSize: Java's own for two
compilers; that for one, 48 MiB, is full after some runs, and then Java interprets, and says so on standard output.
-Xlog:disable: Java ignores an archive that another version wrote, without a message on the user's terminal."""

FIRST_TIER = "-XX:TieredStopAtLevel=1"
"""Java's optimizing compiler doubles the time of a small run and halves that of a large one."""

SMALL_PAGE = "1m"
"""The memory page of each sort and aggregation in a small run. By default Spark clears 64 MiB for each."""

LOOPBACK = [("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1")]

WORKER_ENVIRONMENT = {"MIMALLOC_PURGE_DELAY": "0"}
"""For Python workers: Arrow returns freed memory to the system at once."""

PYSPARK_IMPORTS = ("pandas", "pyspark.testing.utils")
"""What PySpark imports at the first call of Java."""

SENT = ("checkers/**/*.py", "harness/__init__.py", "harness/chunks.py", "harness/model/**/*.py")
UNPACKED = "splitbrain"
"""The sources sent to a cluster, and the directory that executors unpack them to."""

LARGE_BYTES = 32 << 20
"""The size of Parquet from which a check counts as large: about two million rows of history."""

_STARTING = Lock()


def spark_session(
    master: str | None = None,
    memory: str = "2g",
    archive: Path | None = None,
    java_options: str = "",
    large: bool = False,
    meanwhile: Iterable[str] = (),
) -> SparkSession:
    """The running session, whichever thread started it, or a new one.

    memory: the driver's heap, in Java's notation. large: see LARGE_BYTES. meanwhile: modules to import while the Java
    machine starts.

    Raises EnvironmentFailure if no Java machine can be started.
    """
    with _STARTING:
        # An active session is a thread's own; the context is the process's.
        context = SparkContext._active_spark_context
        return (
            SparkSession(context) if context else _new_session(master, memory, archive, java_options, large, meanwhile)
        )


def _new_session(
    master: str | None, memory: str, archive: Path | None, java_options: str, large: bool, meanwhile: Iterable[str]
) -> SparkSession:
    options = java_options if large else f"{FIRST_TIER} {java_options}"
    master = master or "local[*]"
    conf = settings(master, memory, archive or archive_file(), options, large)
    conf.setAll(LOOPBACK if is_near(master) else [])
    conf.setAll([] if master.startswith("local") else sent_along(cache_directory()))
    session = SparkSession(start(conf, is_near(master), meanwhile))
    session.sparkContext.setLogLevel("ERROR")
    # PySpark raises a failed job's trace and prints it too.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return session


def cache_directory() -> Path:
    """$XDG_CACHE_HOME/splitbrain, by default ~/.cache/splitbrain."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "splitbrain"


def archive_file() -> Path:
    """The class archive, kept beside Python's packages: it fits these Spark jars alone. A Java version other than its
    writer's ignores it."""
    return Path(sys.prefix) / "cache" / f"pyspark-{version('pyspark')}.jsa"


def settings(master: str, memory: str, archive: Path, java_options: str, large: bool) -> SparkConf:
    """Every setting; the module's docstring gives the reasons."""
    share = f"-XX:SharedArchiveFile={archive}" if archive.exists() else ""
    log = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
    return SparkConf().setAll(
        [
            ("spark.master", master),
            ("spark.app.name", "splitbrain"),
            ("spark.driver.memory", memory),
            ("spark.driver.extraJavaOptions", f"{QUIET} {share} {log} {java_options}".strip()),
            ("spark.ui.enabled", "false"),
            ("spark.ui.showConsoleProgress", "false"),
            ("spark.sql.adaptive.enabled", "false"),
            # Otherwise every call on a column walks Python's stack and sends the call site to Java.
            ("spark.python.sql.dataFrameDebugging.enabled", "false"),
            ("spark.sql.execution.arrow.pyspark.enabled", "true"),
            ("spark.sql.execution.arrow.maxRecordsPerBatch", "100000"),
            # Blocks of rows (columns.py) are few records and many bytes.
            ("spark.sql.execution.arrow.maxBytesPerBatch", "16m"),
            ("spark.sql.shuffle.partitions", str(SHUFFLE_PARTITIONS)),
            *([] if large else [("spark.buffer.pageSize", SMALL_PAGE)]),
            # By default the driver fetches what a task returns over a socket from 1 MiB, also in its own process.
            ("spark.task.maxDirectResultSize", "32m"),
            ("spark.sql.session.timeZone", "UTC"),
        ]
    )


def is_near(master: str) -> bool:
    """Whether all of Spark runs on this machine."""
    return master.startswith(("local", "spark://127.0.0.1:", "spark://localhost:"))


def sent_along(cache: Path) -> list[tuple[str, str]]:
    """Settings that send a cluster's workers the sources that a check's functions import.

    Each executor unpacks the archive into its own directory, which precedes any installed version.
    """
    sources = sorted(file for part in SENT for file in PACKAGES.glob(part))
    contents = {str(source.relative_to(PACKAGES)): source.read_bytes() for source in sources}
    digest = hashlib.sha256(repr(contents).encode()).hexdigest()[:16]
    packages = cache / f"packages-{digest}.zip"
    if not packages.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = packages.with_suffix(f".{os.getpid()}")
        with ZipFile(unfinished, "w") as archive:
            for name, content in contents.items():
                archive.writestr(name, content)
        unfinished.rename(packages)
    environment = {"PYTHONPATH": UNPACKED, **WORKER_ENVIRONMENT}
    variables = [(f"spark.executorEnv.{name}", value) for name, value in environment.items()]
    return [("spark.archives", f"{packages}#{UNPACKED}"), *variables]


def start(conf: SparkConf, near: bool, meanwhile: Iterable[str]) -> SparkContext:
    """A context in a new Java machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if near:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = [str(PACKAGES), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    for name, value in WORKER_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    java = JavaStart(conf)
    for module in chain(PYSPARK_IMPORTS, meanwhile):
        if not java.is_ended:
            import_module(module)
    context = SparkContext(gateway=java.gateway(), conf=conf)
    java.is_up()
    return context
