"""The tables that show a run: sites, queries and channels, as they are now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mooring.cli.output.tables import bar
from mooring.controller.run_headroom import shown_words
from mooring.quantity import factor_words
from mooring.spark.engine.snapshot import Snapshot


def run_view(snapshot: Snapshot, headroom: Mapping[str, Any] | None, where: str = "") -> Group:
    """`headroom`: as the run worked it out at its last look. `where`: where the data is, in words."""
    return Group(
        Text(f"{snapshot.since_start_s:.0f} s", style="bold"),
        _sites(snapshot, (headroom or {}).get("sites") or {}),
        Text(f"headroom {shown_words(headroom)}"),
        *([_queries(snapshot)] if snapshot.queries else []),
        *([_channels(snapshot)] if snapshot.channels else []),
        *_views(snapshot),
        *_states(snapshot),
        *(Text(f"! {name}: {what}", style="bold red") for name, what in snapshot.troubles.items()),
        *([Text(where, style="dim")] if where else []),
    )


def _sites(snapshot: Snapshot, rooms: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, title_justify="left")
    for column in ("site", "load", "of", "", "headroom", "memory", "fragments"):
        table.add_column(column, justify="left" if column in ("site", "", "fragments") else "right")
    for name, site in snapshot.sites.items():
        load = site.load_cores
        room = rooms.get(name)
        table.add_row(
            escape(name),
            "" if load is None else f"{load:.2f}{'~' if site.estimated else ''}",
            f"{site.capacity_cores:g} cores",
            "" if site.utilisation is None else bar(site.utilisation),
            "" if room is None else factor_words(room["factor"]),
            "" if site.resident_mb is None else f"{site.resident_mb:.0f} MB",
            escape(", ".join(site.fragments)),
        )
    return table


def _queries(snapshot: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("query", "rows/s", "rows", "latency", "files behind"):
        table.add_column(column, justify="left" if column == "query" else "right")
    for name, query in snapshot.queries.items():
        table.add_row(
            escape(name),
            f"{query.rows_per_s:.1f}",
            str(query.rows),
            "" if query.latency_s is None else f"{query.latency_s:.1f} s",
            "?" if query.files_behind is None else str(query.files_behind),
        )
    return table


def _channels(snapshot: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("channel", "kB/s", "stored", "read from other sites"):
        table.add_column(
            column, justify="left" if column in ("channel", "read from other sites") else "right"
        )
    for name, channel in snapshot.channels.items():
        table.add_row(
            escape(name),
            f"{channel.bytes_per_s / 1e3:.1f}",
            f"{channel.stored_bytes / 1e3:.0f} kB",
            escape(", ".join(channel.crosses)),
        )
    return table


def _views(snapshot: Snapshot) -> list[Table]:
    """Materialized views as they are now; nothing where there are none."""
    if not snapshot.views:
        return []
    table = Table(box=None, pad_edge=False)
    for column in ("view", "rows", "stored", "age", "refresh took", "rows read"):
        table.add_column(column, justify="left" if column == "view" else "right")
    for name, view in snapshot.views.items():
        table.add_row(
            escape(name),
            str(view.rows),
            f"{view.stored_bytes / 1e3:.0f} kB",
            f"{view.age_s:.0f} s",
            f"{view.took_s:.1f} s",
            str(view.rows_read),
        )
    return [table]


def _states(snapshot: Snapshot) -> list[Table]:
    """What fragments hold in state, which is what a move takes along; nothing where none does."""
    holding = {name: f for name, f in snapshot.fragments.items() if f.state_rows or f.state_bytes}
    if not holding:
        return []
    table = Table(box=None, pad_edge=False)
    for column in ("state of", "at", "rows", "size"):
        table.add_column(column, justify="left" if column in ("state of", "at") else "right")
    for name, fragment in holding.items():
        size = f"{fragment.state_bytes / 1e3:.0f} kB"
        table.add_row(escape(name), escape(fragment.site), str(fragment.state_rows), size)
    return [table]


def one_line(snapshot: Snapshot) -> str:
    """For logs: where a live view cannot be drawn."""
    sites = ", ".join(
        f"{name} {site.load_cores:.2f}/{site.capacity_cores:g}"
        for name, site in snapshot.sites.items()
        if site.load_cores is not None
    )
    rows = sum(query.rows for query in snapshot.queries.values())
    behind = sum(sum(channel.lag.values()) for channel in snapshot.channels.values())
    load = f"load {sites or 'not measured yet'}"
    trouble = f"; {len(snapshot.troubles)} in trouble" if snapshot.troubles else ""
    return f"{snapshot.since_start_s:6.0f} s  {load}; {rows} rows delivered, {behind} files waiting{trouble}"
