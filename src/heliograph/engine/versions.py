"""What a Python process runs, and whether a lane may work for a driver that runs something else.

Owns the rule. Must not know how versions travel: they are plain texts, so that a lane of any release can report its
own and a driver of any other can read them.
"""

from __future__ import annotations

import hashlib
import platform
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import heliograph

MUST_EQUAL = ("heliograph", "code", "python", "pyspark")
_NAMES = {"heliograph": "Heliograph", "python": "Python", "pyspark": "PySpark"}
_REMEDY = (
    "run `heliograph pack` and name the archive in spark.archives, or let spark.python name an interpreter that the"
    " executors have with the driver's versions"
)
_PYSPARK_REMEDY = (
    "the executors' Spark brings its own PySpark: install the PySpark of the cluster's release beside the driver,"
    " and pack again"
)
# What Spark tells of a lane that could not even begin: it never reports its versions.
_NEVER_BEGAN = {
    "No module named 'heliograph": "the executors' Python has no Heliograph",
    "No module named": "the executors' Python lacks a package",
    "PYTHON_VERSION_MISMATCH": "the executors' Python is of another release than the driver's",
    'Cannot run program "': "the executors do not have the lanes' interpreter",
}


def versions() -> dict[str, str]:
    """Of this process: of a lane its executor's, of the driver its own."""
    from pyspark.version import __version__ as pyspark_version

    return {
        "heliograph": heliograph.__version__,
        "code": code_digest(Path(heliograph.__file__).parent),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "pyspark": pyspark_version,
        "platform": " ".join((sysconfig.get_platform(), *platform.libc_ver())).strip(),
    }


def mismatch(driver: Mapping[str, str], lane: Mapping[str, str]) -> str | None:
    """What differs and what to do, or None where the lane may work for this driver."""
    facts = differences(driver, lane)
    if facts is None:
        return None
    of_spark = all(driver.get(name) == lane.get(name) for name in MUST_EQUAL if name != "pyspark")
    return f"the lane's environment is not the driver's: {facts}; {_PYSPARK_REMEDY if of_spark else _REMEDY}"


def differences(driver: Mapping[str, str], lane: Mapping[str, str]) -> str | None:
    """Only what differs of what must not."""
    different = [name for name in MUST_EQUAL if driver.get(name) != lane.get(name)]
    if "heliograph" in different and "code" in different:
        different.remove("code")  # follows from the version, and its digest says nothing to people
    return ", ".join(_difference(name, driver, lane) for name in different) or None


def why_it_never_began(cause: str) -> str | None:
    """What to do about a lane that ended by `cause` before it could report its versions; None: it is not that."""
    for sign, meaning in _NEVER_BEGAN.items():
        if sign in cause:
            return f"{meaning}; {_REMEDY}"
    return None


def code_digest(package: Path) -> str:
    """Of a package's source files: two installations of one version may still hold different code."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()[:16]


def _difference(name: str, driver: Mapping[str, str], lane: Mapping[str, str]) -> str:
    if name == "code":
        return "Heliograph's code differs within one version"
    return f"{_NAMES[name]} {lane.get(name, 'of an unknown release')} instead of {driver.get(name)}"
