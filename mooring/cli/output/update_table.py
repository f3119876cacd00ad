"""The table that shows what an update did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table


def update_table(update: Mapping[str, Any]) -> Table:
    """From the document of an update: a line per fragment that took part."""
    table = Table(box=None, pad_edge=False)
    for column in ("table", "flow", "site", "", "rows read", "rows written", "seconds"):
        table.add_column(column, justify="right" if column[:4] in ("rows", "seco") else "left")
    for name, each in update["fragments"].items():
        seconds = each["seconds"]
        table.add_row(
            escape(each["table"]),
            escape(name) if name != each["table"] else "",
            escape(each["site"]),
            each["state"],
            str(each["rows_read"]),
            str(each["rows_written"]),
            "" if seconds is None else f"{seconds:.1f}",
        )
    return table
