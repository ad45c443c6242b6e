"""A directory that some processes do not see, as if they were on another machine. Needs root.

In a mount namespace of their own an empty directory lies over it; it is gone with the last of them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def without(directory: Path) -> list[str]:
    """What a command is begun with to see an empty directory in place of this one."""
    return ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(directory)]


def can_hide(directory: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*without(directory), "true"], capture_output=True).returncode == 0
