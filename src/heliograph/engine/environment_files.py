"""Which files make up this process's Python environment, and their places in a tree that may be moved anywhere.

    bin/python3.x     the interpreter          lib/python3.x/   its standard library, found from its place in the tree
    lib/              the libraries both load  site-packages/   Heliograph and all that it requires

Owns the choice. Must not know archives. Left out is what no lane needs: Spark's jars (executors have Spark's own),
tests, headers, other packages of the environment. Compiled modules too: a quarter of the archive, against 2.5 s once
on an executor that makes them itself. Compiled kernels go along: a third of a megabyte, against 4 s there.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path, PurePosixPath

import heliograph
from heliograph.model.errors import HeliographError, UsageError
from heliograph.wire import kernels
from heliograph.wire.kernels.loading import kept_at, wait
from heliograph.wire.kernels.machine_code import BESIDE, SUFFIXES

PACKAGES = "site-packages"
LIBRARIES = "lib"
_LDD_TIMEOUT_S = 60.0
_ROOT = "heliograph"
_LANE_MODULES = """
import sys
there_before = set(sys.modules)
import heliograph.engine.lane_daemon
import heliograph.cluster.security.tls_context  # loaded by lanes of clusters with TLS, when they need it
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - there_before}))
"""
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_NEEDED_FOLDERS = frozenset(
    {"__pycache__", "tests", "include", "test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"}
)
_NOT_NEEDED_SUFFIXES = (".pyi", ".pxd", ".pyx", ".pxi", ".a", ".h", ".exe")
_NOT_STANDARD_LIBRARY = re.compile(r"site-packages|dist-packages|config-")
_NOTHING = re.compile(r"(?!)")
_SPARK_HOME = frozenset(
    {"jars", "bin", "sbin", "examples", "data", "licenses", "python", "R", "kubernetes", "yarn"}
)
# Extension modules that no lane loads, and that would bring a graphical desktop's libraries with them.
_NOT_NEEDED_MODULES = re.compile(
    r"_tkinter|_curses|readline|nis|ossaudiodev|_sqlite3|_dbm|_gdbm|_test|_xxtest|xxlimited"
)
# Libraries of the C library and of the kernel belong to the machine: those of another one would not work there.
_OF_THE_MACHINE = re.compile(
    r"(ld-linux|linux-vdso|lib(c|m|dl|rt|util|pthread|resolv|nsl|gcc_s|stdc\+\+)\.so)"
)
_LDD_LINE = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFile:
    """`name` is its place in the tree."""

    path: Path
    name: str


def environment_files() -> list[PackedFile]:
    """Everything, each place once, in a fixed order."""
    if sys.platform != "linux":
        raise UsageError(
            f"an environment of {sys.platform} would not run on a cluster",
            hint="run `heliograph pack` on Linux, in a container for example",
        )
    interpreter = PackedFile(path=base_interpreter(), name=f"bin/{interpreter_name()}")
    standard = list(_standard_library())
    found = [interpreter, *standard, *_libraries([interpreter, *standard]), *_packages(), *_kernels()]
    return [file for _, file in sorted({file.name: file for file in found}.items())]


def base_interpreter() -> Path:
    """The binary itself: a virtual environment only links to it."""
    return Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))


def interpreter_name() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _standard_library() -> Iterator[PackedFile]:
    library = Path(os.__file__).parent
    dynamic = [Path(entry) for entry in sys.path if Path(entry).name == "lib-dynload"]
    for folder, prefix in [(library, sys.base_prefix), *((path, sys.base_exec_prefix) for path in dynamic)]:
        if not folder.is_relative_to(prefix):
            raise UsageError(
                f"this Python's standard library in {folder} is outside of its prefix {prefix}",
                hint="make the virtual environment with another Python",
            )
        place = PurePosixPath(folder.relative_to(prefix).as_posix())
        yield from _tree(folder, place, _NOT_STANDARD_LIBRARY)


def _libraries(binaries: list[PackedFile]) -> Iterator[PackedFile]:
    """What the interpreter and the standard library load, that the executors' machine may not have."""
    paths = [
        str(file.path) for file in binaries if file.name.startswith("bin/") or ".so" in file.path.suffixes
    ]
    try:
        told = subprocess.run(
            ["ldd", *paths], capture_output=True, text=True, timeout=_LDD_TIMEOUT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise UsageError(
            f"ldd cannot be run: {problem}",
            hint="see that ldd works here; the package libc-bin or glibc-common brings it",
        ) from problem
    for name, path in _LDD_LINE.findall(told):
        if not _OF_THE_MACHINE.match(name):
            yield PackedFile(path=Path(os.path.realpath(path)), name=f"{LIBRARIES}/{name}")


def _packages() -> Iterator[PackedFile]:
    package = Path(heliograph.__file__).parent  # wherever it is: an editable installation lists no files
    yield from _tree(package, PurePosixPath(PACKAGES, _ROOT))
    for required in _requirements():
        yield from _files_of(required)


def _kernels() -> Iterator[PackedFile]:
    """Their machine code, for executors whose CPU is of this kind; others compile it. So do all where it cannot be
    kept here."""
    with contextlib.suppress(HeliographError):
        wait()
    kept = kept_at()
    folder = PurePosixPath(PACKAGES, *kernels.__name__.split("."), BESIDE)
    for path in kept.iterdir() if kept is not None else ():
        if path.suffix in SUFFIXES:
            yield PackedFile(path=path, name=str(folder / path.name))


def _requirements() -> list[Distribution]:
    """Heliograph's own requirements and theirs, as far as they are installed, and whatever a lane loads.

    By both, because neither is enough: some are loaded late, and an editable installation forgets new ones.
    """
    found: dict[str, Distribution] = {}
    waiting = [_ROOT, *_loaded_by_a_lane()]
    while waiting:
        name = waiting.pop()
        key = name.lower().replace("_", "-")
        if key in found:
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:
            continue  # of another platform: its marker left it out of this installation
        waiting.extend(_required_by(found[key]))
    return list(found.values())


def _loaded_by_a_lane() -> list[str]:
    command = [sys.executable, "-c", _LANE_MODULES]
    told = subprocess.run(command, capture_output=True, text=True, check=False)  # as long as an import takes
    if told.returncode:
        raise UsageError(
            f"a lane would not start in this environment: {told.stderr.strip().splitlines()[-1]}",
            hint="install Heliograph again with all that it requires, then pack",
        )
    providers = packages_distributions()
    return [name for module in told.stdout.split() for name in providers.get(module, ())]


def _required_by(package: Distribution) -> Iterator[str]:
    for requirement in package.requires or ():
        name = _REQUIREMENT.match(requirement)
        if name is not None and "extra ==" not in requirement:
            yield name.group()


def _files_of(package: Distribution) -> Iterator[PackedFile]:
    for entry in package.files or ():
        path = Path(str(package.locate_file(entry)))
        if _wanted(PurePosixPath(entry)) and path.is_file():
            yield PackedFile(path=path, name=f"{PACKAGES}/{entry.as_posix()}")


def _wanted(entry: PurePosixPath) -> bool:
    folders = entry.parts[:-1]
    # scripts of bin/; hooks of a virtual environment
    outside = ".." in folders or (not folders and entry.suffix == ".pth")
    of_spark = len(folders) > 1 and folders[0] == "pyspark" and folders[1] in _SPARK_HOME
    not_needed = _NOT_NEEDED_FOLDERS & set(folders) or entry.suffix in _NOT_NEEDED_SUFFIXES
    return not (outside or of_spark or not_needed)


def _tree(folder: Path, place: PurePosixPath, left_out: re.Pattern[str] = _NOTHING) -> Iterator[PackedFile]:
    """`left_out` names files and folders at its top."""
    for top, folders, names in os.walk(folder):
        inner = PurePosixPath(Path(top).relative_to(folder).as_posix())
        if top == str(folder):
            folders[:] = [name for name in folders if not left_out.match(name)]
            names = [name for name in names if not left_out.match(name)]
        folders[:] = sorted(set(folders) - _NOT_NEEDED_FOLDERS)
        for name in names:
            if _wanted(inner / name) and not _NOT_NEEDED_MODULES.match(name):
                yield PackedFile(path=Path(top, name), name=str(place / inner / name))
