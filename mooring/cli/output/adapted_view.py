"""How ways of adapting to the same changes did, side by side."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from mooring.cli.output.terminal import Terminal
from mooring.model.problem.changes.change import in_words
from mooring.simulator.runs.variants import Comparison

_MOST_LINES = 20
_ROWS = (
    ("room_share", "time with room (headroom >= 1)", "{:.1%}"),
    ("enough_room_share", "time with enough room (>= 1.25)", "{:.1%}"),
    ("limits_met_share", "time within latency limits", "{:.1%}"),
    ("tuples_within_limits", "tuples within latency limits", "{:.1%}"),
    ("mean_latency_ms", "mean latency, ms", "{:,.1f}"),
    ("p99_latency_ms", "p99 latency, ms", "{:,.1f}"),
    ("mean_busiest", "busiest site, on average", "{:.1%}"),
    ("moves", "moves", "{:.0f}"),
    ("most_moves_of_one", "most moves of one fragment", "{:.0f}"),
    ("pauses_s", "pauses, s", "{:.1f}"),
)


def print_comparison(comparison: Comparison, terminal: Terminal) -> None:
    changes = comparison.scenario.changes
    for change in changes[:_MOST_LINES]:
        terminal.print(f"{change.at_s:8.0f} s  {escape(in_words(change))}")
    if len(changes) > _MOST_LINES:
        terminal.print(f"           and {len(changes) - _MOST_LINES} more changes")
    terminal.print()
    terminal.print(_figures(comparison))
    for name, course in comparison.courses.items():
        if course.moves:
            terminal.print()
            terminal.print(f"moves of {name}:")
        for move in course.moves[:_MOST_LINES]:
            way = f"{move.fragment}: {move.from_site} -> {move.to_site}"
            terminal.print(f"{move.at_s:8.0f} s  {escape(way)}, pause {move.pause_s:.1f} s")
        if len(course.moves) > _MOST_LINES:
            terminal.print(f"           and {len(course.moves) - _MOST_LINES} more")
    terminal.print()
    for name, course in comparison.courses.items():
        terminal.print(f"{escape(name)}: {escape(course.simulated.verdict)}")
        if course.traffic.total:
            kilobytes = course.traffic.bytes / 1000.0
            terminal.print(f"{escape(name)}: {course.traffic.total:,} messages, {kilobytes:,.0f} kB")


def _figures(comparison: Comparison) -> Table:
    table = Table("", box=None)
    summaries = {name: course.summary() for name, course in comparison.courses.items()}
    for name in summaries:
        table.add_column(escape(name), justify="right")
    for key, title, shape in _ROWS:
        values = [summary[key] for summary in summaries.values()]
        if any(value is not None for value in values):
            table.add_row(title, *("-" if value is None else shape.format(value) for value in values))
    return table
