"""The archive of an environment that `spark.archives` ships to executors: writing one, and knowing one again.

    heliograph-env.json   the manifest: first in the archive, so that it is read at once
    bin/python            starts the interpreter beside it, wherever the archive was unpacked
    ...                   see environment_files

Owns the archive's form. Must not know which files an environment has.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from heliograph.engine.environment_files import LIBRARIES, PACKAGES, PackedFile, interpreter_name
from heliograph.model.errors import UsageError

MANIFEST = "heliograph-env.json"
SCHEMA = "heliograph.environment/1"
INTERPRETER = "bin/python"
_COMPRESSION_LEVEL = 6  # level 9 takes three times as long for one hundredth
# Spark's own PYTHONPATH stays first: PySpark must be the one of the executor's Spark.
_LAUNCHER = """\
#!/bin/sh
# The interpreter of this environment, wherever it was unpacked.
home=$(cd "${{0%/*}}/.." && pwd -P) || exit 1
unset PYTHONHOME
export PYTHONNOUSERSITE=1
export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$home/{packages}"
export LD_LIBRARY_PATH="$home/{libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$home/bin/{interpreter}" "$@"
"""


def write_archive(
    path: Path,
    files: Sequence[PackedFile],
    versions: Mapping[str, str],
    on_file: Callable[[PackedFile], None] = lambda _: None,
) -> int:
    """Its size in bytes. Whatever happens, `path`, of `archive_place`, is a whole archive or what it was before."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("xb") as raw:
            _write(raw, files, versions, on_file)
        partial.replace(path)
    except OSError as problem:
        raise _not_written(path, problem) from problem
    finally:
        with contextlib.suppress(OSError):  # most often: it has its name by now, or never came to be
            partial.unlink()
    return path.stat().st_size


def archive_place(path: Path) -> Path:
    """Where an archive of this name is to be written: links are followed, and only a plain file is replaced."""
    place = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not place.parent.is_dir():
        raise _not_written(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    if place.is_dir():
        raise _not_written(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if place.exists() and not place.is_file():
        raise _not_written(path, OSError(errno.EINVAL, "it is not a plain file"))
    return place


def read_manifest(path: Path) -> dict[str, str] | None:
    """The versions packed in this archive; None if `heliograph pack` did not make it."""
    try:
        with tarfile.open(path, "r:*") as archive:
            first = archive.next()
            content = archive.extractfile(first) if first and first.name == MANIFEST else None
            manifest = json.load(content) if content else {}
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, ValueError):
        return None
    return dict(manifest["versions"]) if manifest.get("schema") == SCHEMA else None


def _write(
    raw: io.BufferedWriter,
    files: Sequence[PackedFile],
    versions: Mapping[str, str],
    on_file: Callable[[PackedFile], None],
) -> None:
    manifest = {"schema": SCHEMA, "versions": dict(versions), "interpreter": INTERPRETER}
    launcher = _LAUNCHER.format(packages=PACKAGES, libraries=LIBRARIES, interpreter=interpreter_name())
    with (
        gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as archive,
    ):
        _add_text(archive, MANIFEST, json.dumps(manifest, indent=2) + "\n", 0o644)
        _add_text(archive, INTERPRETER, launcher, 0o755)
        for file in files:
            archive.add(file.path, file.name, recursive=False, filter=_of_nobody)
            on_file(file)


def _add_text(archive: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.mode, member.size = mode, len(text.encode())
    archive.addfile(member, io.BytesIO(text.encode()))


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Owners mean nothing on the executors' machine; everybody there may read."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode |= 0o555 if member.mode & 0o100 else 0o444
    return member


def _not_written(path: Path, problem: OSError) -> UsageError:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        hint = (
            "make room (some 100 MB), or name another place: heliograph pack /elsewhere/heliograph-env.tar.gz"
        )
    else:
        hint = "name a place that may be written: heliograph pack /elsewhere/heliograph-env.tar.gz"
    return UsageError(f"cannot write {path}: {problem.strerror or problem}", hint=hint)
