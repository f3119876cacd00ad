"""What is live in a Java heap: read off the collector's log, which a site writes if told to."""

from __future__ import annotations

import re
from pathlib import Path

_FULL_COLLECTION = re.compile(r"Pause Full.* \d+M->(\d+)M\(")
_TAIL_BYTES = 20_000
"""Long enough for a minute of the log, and every minute has a full collection."""


def live_heap_mb(log: Path) -> int | None:
    """The heap in use right after the last full collection, so without garbage; None before the first."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return None
    after = _FULL_COLLECTION.findall(text)
    return int(after[-1]) if after else None
