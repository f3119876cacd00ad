"""`mooring headroom`: how far the present rates are from overload."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mooring.cli.input.given_placement import add_placement, given_placement
from mooring.cli.input.parsing import Parser, add_problem
from mooring.cli.input.problem_source import add_measured, assumed_sentence, load_source
from mooring.cli.output.tables import headroom_table
from mooring.cli.output.terminal import Terminal
from mooring.model.problem.fingerprint import fingerprint
from mooring.planning import headroom
from mooring.quantity import decimal

if TYPE_CHECKING:
    from mooring.model.placement.placement import Placement
    from mooring.model.problem.problem import Problem
    from mooring.spark.pipeline.layout import Layout

DESCRIPTION = (
    "Shows by what factor all rates together, and each stream alone, can grow before a site is full, and "
    "which site that is. Also shows up to which size the refreshes of materialized views fit their "
    "interval."
)


def add_options(parser: Parser) -> None:
    add_problem(parser)
    add_measured(parser)
    add_placement(parser)
    parser.add_argument("--all", action="store_true", help="show all streams, not only the worst")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    problem, layout = load_source(args.problem, measured=args.measured)
    placement = given_placement(args, problem, terminal, "headroom of")
    room = headroom(problem, placement)
    views = {} if layout is None else _view_forecasts(layout, problem, placement)
    terminal.document(
        {
            "version": 1,
            "problem": fingerprint(problem),
            "placement": placement.as_dict(),
            "headroom": room.as_json(),
            "views": views,
        }
    )
    terminal.print(headroom_table(room, all_streams=args.all))
    if (assumed := assumed_sentence(layout)) is not None and not args.measured:
        terminal.print(f"[yellow]note:[/yellow] {escape(assumed)}")
    if views:
        terminal.print(views_table(views))
    return 0


def _view_forecasts(layout: Layout, problem: Problem, placement: Placement) -> dict[str, dict[str, object]]:
    """How long the refreshes of a project's materialized views fit their interval, by view."""
    from mooring.spark.views.forecast import view_forecasts

    found = view_forecasts(layout, problem, placement)
    return {name: each.as_json() for name, each in found.items()}


_LONG_AHEAD_DAYS = 1000


def views_table(views: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("view")
    for column in ("refresh", "every", "reads", "grows by", "fits up to"):
        table.add_column(column, justify="right")
    table.add_column("for")
    for name, view in views.items():
        most = view["most_rows"]
        table.add_row(
            Text(name),
            f"{decimal(view['refresh_cpu_s'])} CPU s",
            f"{view['refresh_s']:g} s",
            f"{view['rows']} rows",
            f"{decimal(view['rows_per_s'])}/s",
            "no limit" if most is None else f"{decimal(most)} rows",
            _for(view["fits_for_s"]),
        )
    return table


def _for(seconds: float | None) -> Text:
    """How long it goes on fitting.

    >>> _for(0.0).plain, _for(90.0).plain, _for(86400.0 * 3).plain, _for(None).plain
    ('does not fit', '1.5 minutes', '3 days', 'good')
    """
    if seconds is None or seconds > _LONG_AHEAD_DAYS * 86400:
        return Text("good", style="green")
    if seconds == 0.0:
        return Text("does not fit", style="red")
    units = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
    size, unit = next((each for each in units if seconds >= each[0]), units[-1])
    return Text(f"{decimal(seconds / size, 2)} {unit}", style="yellow" if seconds < 86400 else "")
