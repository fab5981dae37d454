"""The modules in which a simulation of the reference system spends its time, compiled to C by mypyc.

    directory = compiled(report)        # compiles them, in one to two minutes, if they are not in the cache
    import_from(directory)              # in a process that has not imported any of them yet

They are compiled from the same sources, in which only the initializers of dataclasses are written out. So a run has the
same digest, which a test compares. A process simulates about twice as many runs a minute then.

Contains the compilation and its cache. Does not contain the choice of it (harness.simulating.pool).
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Final

from harness.model import EnvironmentFailure
from nodes.kafka.artifacts import Library, publish

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("harness/*.py", "harness/model/**/*.py", "nodes/**/*.py")
"""What the compiled modules import, and they themselves."""
COMPILED: Final = (
    "nodes/reference/core/*.py",
    "nodes/reference/core/roles/*.py",
    "nodes/reference/core/records/*.py",
    "nodes/simulation/reference/*.py",
    "nodes/simulation/network.py",
    "nodes/simulation/timeline.py",
    "nodes/wire/batches.py",
    "nodes/wire/varints.py",
)
INTERPRETED: Final = frozenset({"__init__.py", "entities.py"})
"""The names of files that are not compiled: kio reads the class variables of the entities."""
BUILD: Final = "build"
"""The directory in which mypyc keeps what it needs to compile."""
COMPILE_SECONDS: Final = 900
NEEDS: Final = "as root: apt-get install -y gcc python3-dev; and: pip install mypy"
LEVEL: Final = "MYPYC_OPT_LEVEL"
"""The environment variable with the optimization level of the C compiler: by default 1, as more makes no difference."""
DATACLASSES: Final = {
    "@dataclass(frozen=True, slots=True)": "@dataclass(init=False, unsafe_hash=True)",
    "@dataclass(slots=True)": "@dataclass(init=False)",
}
"""What is compiled in place of the decorators of most dataclasses."""


def compiled(report: Callable[[str], None] = lambda _line: None, cache: Path | None = None) -> Path:
    """The directory of the compiled modules; compiles them if they are not in the cache, beside Kafka's releases.

    Raises EnvironmentFailure if there is no compiler, or if it fails.
    """
    final = (cache or Library.default().cache.parent / "compiled") / _digest()
    if final.exists():
        return final
    report("compiling the reference system, once")
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".compiled-", dir=final.parent) as directory:
        partial = Path(directory, "compiled")
        _compile(partial, copied_sources(partial))
        shutil.rmtree(partial / BUILD)
        publish(partial, final)
    return final


def copied_sources(target: Path) -> list[str]:
    """Copy all sources that the compiler reads; returns the paths of those to compile, in this directory."""
    for source in _sources():
        copy = target / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    found = {file for pattern in COMPILED for file in target.glob(pattern) if file.name not in INTERPRETED}
    for file in found:
        file.write_text(_with_initializers(file.read_text()))
    return sorted(str(file.relative_to(target)) for file in found)


def import_from(directory: Path) -> None:
    """Import the compiled modules from now on. None of them may have been imported."""
    finder = _Finder(directory)
    imported = sorted(finder.files.keys() & sys.modules.keys())
    assert not imported, f"imported before: {', '.join(imported)}"
    sys.meta_path.insert(0, finder)


class _Finder(MetaPathFinder):
    def __init__(self, directory: Path) -> None:
        suffix = EXTENSION_SUFFIXES[0]
        found = {str(file.relative_to(directory)): file for file in directory.rglob(f"*{suffix}")}
        self.files = {name.removesuffix(suffix).replace("/", "."): file for name, file in found.items()}

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self.files.get(fullname)
        return None if file is None else importlib.util.spec_from_file_location(fullname, file)


def _digest() -> str:
    """Of all that decides what the compiler makes."""
    try:
        compiler = version("mypy")
    except PackageNotFoundError as error:
        raise EnvironmentFailure(f"compiling the reference system: mypy is not installed; {NEEDS}") from error
    digest = hashlib.sha256(f"{compiler} {EXTENSION_SUFFIXES[0]} {_level()}".encode())
    for source in _sources():
        digest.update(f"{source.relative_to(ROOT)} {source.stat().st_size} ".encode() + source.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    return sorted(file for pattern in COPIED for file in ROOT.glob(pattern))


def _with_initializers(source: str) -> str:
    """The source with the initializers of its dataclasses written out.

    A dataclass makes its own when it is imported, and that is not compiled. Values are not frozen, either: no source
    assigns to a frozen one, and freezing it takes longer than creating it.
    """
    lines = source.splitlines()
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    for each in sorted(classes, key=lambda node: node.lineno, reverse=True):
        fields = [node for node in each.body if isinstance(node, ast.AnnAssign)]
        decorator = lines[each.lineno - 2]
        has_factories = any(node.value is not None and ast.unparse(node.value).startswith("field(") for node in fields)
        if decorator in DATACLASSES and fields and not (has_factories or each.bases):
            lines[fields[-1].end_lineno or 0 : fields[-1].end_lineno] = _initializer(fields)
            lines[each.lineno - 2] = DATACLASSES[decorator]
    return "\n".join([*lines, ""])


def _initializer(fields: Sequence[ast.AnnAssign]) -> list[str]:
    names = [ast.unparse(each.target) for each in fields]
    defaults = ["" if each.value is None else f" = {ast.unparse(each.value)}" for each in fields]
    types = [ast.unparse(each.annotation) for each in fields]
    parameters = "".join(f", {name}: {type_}{value}" for name, type_, value in zip(names, types, defaults, strict=True))
    return [
        "",
        f"    def __init__(self{parameters}) -> None:",
        *(f"        self.{name} = {name}" for name in names),
        "",
    ]


def _compile(sources: Path, modules: Sequence[str]) -> None:
    argv = [sys.executable, "-m", "mypyc", "--ignore-missing-imports", f"--cache-dir={BUILD}/mypy", *modules]
    environment = {**os.environ, LEVEL: _level()}
    try:
        done = subprocess.run(
            argv, cwd=sources, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired as error:
        message = f"compiling the reference system: mypyc did not finish within {COMPILE_SECONDS} s"
        raise EnvironmentFailure(message) from error
    if done.returncode:
        lines = f"{done.stdout}\n{done.stderr}".splitlines()
        reason = next(
            (line.strip() for line in lines if re.search(r"\berror: |No module named", line)), "no reason given"
        )
        raise EnvironmentFailure(f"compiling the reference system: {reason}; {NEEDS}")


def _level() -> str:
    return os.environ.get(LEVEL, "1")
