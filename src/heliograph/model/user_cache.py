"""The directory where Heliograph keeps what it can make or fetch again.

$XDG_CACHE_HOME/heliograph        (~/.cache/heliograph)
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """A relative XDG_CACHE_HOME is ignored, as its specification asks."""
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"
    return base / "heliograph"
