"""The one Spark session that the checks run on: quiet, on loopback alone, and quick to start.

A laptop's verdict is mostly the wait for a Java machine, so the settings are for a short life: the serial collector,
the first compiler tier only (unless what is to be judged is large), no web page, few shuffle partitions, no adaptive
re-planning. Where Java does not have to be reached from elsewhere, it binds to 127.0.0.1, so a machine without any
route can judge. What the Java machine says goes
to a file without a name and never to the user's terminal; a machine that does not start has its last words quoted in
the error.

    spark = spark_session()                                # this machine, every core
    spark = spark_session(master="spark://host:7077")      # a cluster, to which this package is sent along

Where checkers/archive.py has written an archive of the loaded classes, the session maps it instead of loading the
classes again. Without it everything works, only later.

What may live here: how the session is started. What may not: anything about histories or checks.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from zipfile import ZipFile

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from harness.model import EnvironmentFailure

PACKAGES = Path(__file__).parents[2]
SHUFFLE_PARTITIONS = 4
QUIET = "-XX:+UseSerialGC -XX:MetaspaceSize=256m -Xshare:auto -Xlog:disable"
"""MetaspaceSize: no garbage is looked for among classes while they are still being loaded. -Xlog:disable: an archive
that another Java wrote is ignored without a word on the user's terminal."""

FIRST_TIER = "-XX:TieredStopAtLevel=1"
"""Java's optimizing compiler spends as much time on a small run as that takes, and halves that of a large one."""

LITTLE_PAGE = "1m"
"""What each sort and each aggregation of a small run takes at once; Spark would have it clear 64 MiB for every one."""

LOOPBACK = [("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1")]

THRIFT = {"MIMALLOC_PURGE_DELAY": "0"}
"""For workers of Python: what Arrow lets go of goes back to the system at once, not to whatever it allocates next."""

ASKED_FOR = "pyspark.testing.utils"
"""What PySpark imports at the first call of Java, and Pandas with it."""

SENT = ("checkers/**/*.py", "harness/__init__.py", "harness/chunks.py", "harness/model/**/*.py")
UNPACKED = "splitbrain"
"""What a cluster is sent, and the directory that it is unpacked to."""

LARGE_BYTES = 32 << 20
"""From how much Parquet on a judgement is large: about two million rows of history."""


def spark_session(
    master: str | None = None,
    memory: str = "2g",
    archive: Path | None = None,
    java_options: str = "",
    large: bool = False,
    meanwhile: Sequence[str] = (),
) -> SparkSession:
    """The running session, or a new one; memory is the driver's heap, in Java's notation, large what LARGE_BYTES says,
    meanwhile the modules to import while the Java machine starts.

    Raises EnvironmentFailure if no Java machine can be started.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    options = java_options if large else f"{FIRST_TIER} {java_options}"
    master = master or "local[*]"
    conf = settings(master, memory, archive or archive_file(), options, large)
    conf.setAll(LOOPBACK if is_near(master) else [])
    conf.setAll([] if master.startswith("local") else sent_along(cache_directory()))
    session = SparkSession(start(conf, is_near(master), meanwhile))
    session.sparkContext.setLogLevel("ERROR")
    # Python's end of Spark prints a failed job's trace as well as raising it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return session


def cache_directory() -> Path:
    """$XDG_CACHE_HOME/splitbrain, by default ~/.cache/splitbrain."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "splitbrain"


def archive_file() -> Path:
    """The class archive for this Spark, kept where Python's packages are: it is good for those very jars alone. A Java
    machine other than its writer ignores it."""
    return Path(sys.prefix) / "cache" / f"pyspark-{version('pyspark')}.jsa"


def settings(master: str, memory: str, archive: Path, java_options: str, large: bool) -> SparkConf:
    """Every setting of ours, each for the reason the module gives."""
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
            # Else every call on a column walks Python's stack and tells Java where it was made.
            ("spark.python.sql.dataFrameDebugging.enabled", "false"),
            ("spark.sql.execution.arrow.pyspark.enabled", "true"),
            ("spark.sql.execution.arrow.maxRecordsPerBatch", "100000"),
            # Blocks of rows (columns.py) are few records and many bytes.
            ("spark.sql.execution.arrow.maxBytesPerBatch", "16m"),
            ("spark.sql.shuffle.partitions", str(SHUFFLE_PARTITIONS)),
            *([] if large else [("spark.buffer.pageSize", LITTLE_PAGE)]),
            ("spark.sql.session.timeZone", "UTC"),
        ]
    )


def is_near(master: str) -> bool:
    """Whether all of Spark runs on this machine."""
    return master.startswith(("local", "spark://127.0.0.1:", "spark://localhost:"))


def sent_along(cache: Path) -> list[tuple[str, str]]:
    """Settings that give a cluster's workers the sources that a check's functions import; the rest they must have.

    Each executor unpacks the archive into its own directory, where it goes before any other version that is installed.
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
    environment = {"PYTHONPATH": UNPACKED, **THRIFT}
    told = [(f"spark.executorEnv.{name}", value) for name, value in environment.items()]
    return [("spark.archives", f"{packages}#{UNPACKED}"), *told]


def start(conf: SparkConf, near: bool, meanwhile: Sequence[str]) -> SparkContext:
    """A context in a Java machine of its own, with the machine's standard error kept off the terminal."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if near:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = [str(PACKAGES), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    for name, value in THRIFT.items():
        os.environ.setdefault(name, value)
    with TemporaryFile("w+") as stderr, ThreadPoolExecutor(1) as pool:
        starting = pool.submit(launch_gateway, conf, popen_kwargs={"stderr": stderr})
        for module in (ASKED_FOR, *meanwhile):
            import_module(module)
        try:
            gateway = starting.result()
        except PySparkRuntimeError as failure:
            stderr.seek(0)
            said = stderr.read().strip().splitlines() or [str(failure)]
            raise EnvironmentFailure(f"Spark needs Java 17 or newer, and it did not start: {said[-1]}") from failure
    return SparkContext(gateway=gateway, conf=conf)
