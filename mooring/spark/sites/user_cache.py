"""The user's cache of files that take long to fetch or to make."""

from __future__ import annotations

import os
from pathlib import Path


def kept_folder() -> Path:
    """`MOORING_CACHE`, or else `mooring` in the user's cache."""
    if given := os.environ.get("MOORING_CACHE"):
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mooring"
