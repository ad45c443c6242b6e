"""The version before this one, taken from the repository's own history: its package, and what only it needs.

Owns which commit that is. Must not know what is done with it.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The last commit that elected by the link's name alone, copied batches one by one, and knew no gaps and no log starts
# above 0.
BEFORE = "14226e4"
NEEDED_BEFORE = ("pandas", "pyarrow")  # and not by this version


class NotInThisClone(Exception):
    """A shallow clone does not hold the commit."""


def unpack_before(directory: Path) -> Path:
    """Where the package of that version is, ready to be run (`MirrorProcess(code=...)`)."""
    git = ("git", "-C", str(ROOT), "archive", BEFORE, "src", "constraints.txt")
    packed = subprocess.run(git, capture_output=True, check=False)
    if packed.returncode != 0:
        raise NotInThisClone(f"commit {BEFORE} (a shallow clone?): {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(directory, filter="data")
    code = directory / "src"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--target", str(code), "-c", str(directory / "constraints.txt"), *NEEDED_BEFORE], check=True
    )
    return code
