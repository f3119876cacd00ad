"""Rows as text, the same whoever wrote them: what golden data holds, and what tables are compared by."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow


def as_lines(table: pyarrow.Table) -> list[str]:
    """One JSON line per row, columns by name, lines sorted."""
    return sorted(json.dumps(row, sort_keys=True, default=_text) for row in table.to_pylist())


def _text(value: object) -> str:
    """Instants in UTC, whatever zone a reader shows them in."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return str(value)
