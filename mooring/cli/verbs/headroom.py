"""`mooring headroom`: how far the present rates are from overload."""

from __future__ import annotations

import argparse

from rich.markup import escape

from mooring.cli.input.given_placement import add_placement, given_placement
from mooring.cli.input.parsing import Parser, add_problem
from mooring.cli.input.problem_source import add_measured, load_source
from mooring.cli.output.tables import headroom_table
from mooring.cli.output.terminal import Terminal
from mooring.cli.output.views_table import views_table
from mooring.model.problem.fingerprint import fingerprint
from mooring.planning import headroom
from mooring.spark.on_demand import assumed_sentence, view_forecasts

DESCRIPTION = (
    "By what factor all rates together, and each stream alone, can grow before which site is full; and how "
    "long the refreshes of materialized views fit their interval."
)


def add_options(parser: Parser) -> None:
    add_problem(parser)
    add_measured(parser)
    add_placement(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    problem, layout = load_source(args.problem, measured=args.measured)
    placement = given_placement(args, problem, terminal, "headroom of")
    room = headroom(problem, placement)
    views = {} if layout is None else view_forecasts(layout, problem, placement)
    terminal.document(
        {
            "version": 1,
            "problem": fingerprint(problem),
            "placement": placement.as_dict(),
            "headroom": room.as_json(),
            "views": views,
        }
    )
    terminal.print(headroom_table(room))
    if layout is not None and (assumed := assumed_sentence(layout)) is not None and not args.measured:
        terminal.print(f"[yellow]note:[/yellow] {escape(assumed)}")
    if views:
        terminal.print(views_table(views))
    return 0
