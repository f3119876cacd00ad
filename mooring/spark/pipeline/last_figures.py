"""What the last run of a project measured of its fragments, kept among Mooring's own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.atomic_files import write_whole

LAST_FIGURES_FILE_NAME = "statistics.json"


def write_last_figures(work_folder: Path, fragments: Mapping[str, object]) -> None:
    data = {"version": 1, "fragments": dict(fragments)}
    write_whole(work_folder / LAST_FIGURES_FILE_NAME, json.dumps(data, indent=1))


def read_last_figures(work_folder: Path) -> dict[str, Any]:
    """Figures per fragment of the last run that measured any; empty if none did."""
    try:
        data = json.loads((work_folder / LAST_FIGURES_FILE_NAME).read_text())
    except (OSError, ValueError):
        return {}
    found = data.get("fragments") if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}
