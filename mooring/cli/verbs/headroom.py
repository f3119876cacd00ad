"""`mooring headroom`: how far the present rates are from overload."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mooring.cli.input.given_placement import add_placement, given_placement
from mooring.cli.input.parsing import Parser, add_problem
from mooring.cli.input.problem_source import add_measured, assumed_sentence, is_project, load_source
from mooring.cli.output.tables import headroom_table
from mooring.cli.output.terminal import Terminal
from mooring.controller.run_headroom import RunHeadroom
from mooring.model.problem.fingerprint import fingerprint
from mooring.planning import headroom
from mooring.quantity import MOST_FACTOR, decimal, factor_words

if TYPE_CHECKING:
    from mooring.model.placement.placement import Placement
    from mooring.model.problem.problem import Problem
    from mooring.spark.pipeline.layout import Layout

DESCRIPTION = (
    "Shows by what factor all rates together, and each stream alone, can grow before a site is full, and "
    "which site that is. Also shows up to which size the refreshes of materialized views fit their "
    "interval. While the project runs, the headroom of the run comes first: at measured rates, costs and "
    "capacities, as `mooring status` shows it."
)


def add_options(parser: Parser) -> None:
    add_problem(parser)
    add_measured(parser)
    add_placement(parser)
    parser.add_argument("--all", action="store_true", help="show all streams, not only the worst")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    of_run = _of_run(args.problem)
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
            "run": of_run,
        }
    )
    if of_run is not None:
        for line in run_lines(of_run, all_streams=args.all):
            terminal.print(escape(line))
        of = "a plan" if args.placement is None else str(args.placement)
        terminal.print(escape(f"headroom of {of}, at stated or learnt rates:"))
    terminal.print(headroom_table(room, all_streams=args.all))
    if (assumed := assumed_sentence(layout)) is not None and not args.measured:
        terminal.print(f"[yellow]note:[/yellow] {escape(assumed)}")
    if views:
        terminal.print(views_table(views))
    return 0


def _of_run(path: Path) -> dict[str, Any] | None:
    """The headroom that the run of a project worked out at its last look; None if it does not run."""
    if not is_project(path):
        return None
    from mooring.spark.runs.found_run import find_run
    from mooring.spark.runs.system_clock import SystemClock

    found = find_run(path, SystemClock())
    if not found.runs:
        return None
    status = found.files.read_status() or {}
    return {"at_s": status.get("at_s"), **(status.get("headroom") or RunHeadroom().as_json())}


_MOST_STREAMS = 5


def run_lines(of_run: Mapping[str, Any], *, all_streams: bool = False) -> list[str]:
    """Of a run: all rates together, and the streams that can grow least, each alone.

    >>> streams = {"x": {"factor": 1.4, "site": "ada"}, "y": {"factor": 30.0, "site": "ada"}}
    >>> run_lines({"words": "x 1.40, then no CPU left at ada", "streams": streams})
    ['headroom of the run: x 1.40, then no CPU left at ada', '  x alone: x 1.40, then ada is full']
    """
    lines = [f"headroom of the run: {of_run['words']}"]
    bounded = {name: each for name, each in of_run["streams"].items() if each["factor"] is not None}
    least = sorted(bounded, key=lambda name: (float(bounded[name]["factor"]), name))
    for name in least if all_streams else least[:_MOST_STREAMS]:
        room, site = bounded[name]["factor"], bounded[name]["site"]
        if all_streams or room <= MOST_FACTOR:
            lines.append(f"  {name} alone: {factor_words(room)}, then {site} is full")
    return lines


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
