"""`mooring headroom`: how far the present rates are from overload."""

from __future__ import annotations

import argparse
from pathlib import Path

from mooring.cli.input.files import read_placement
from mooring.cli.input.parsing import Parser, add_problem
from mooring.cli.input.problem_source import add_measured, load_problem
from mooring.cli.output.tables import headroom_table
from mooring.cli.output.terminal import Terminal
from mooring.problem.fingerprint import fingerprint
from mooring.run import headroom, plan

DESCRIPTION = "By what factor all rates together, and each stream alone, can grow before which site is full."


def add_options(parser: Parser) -> None:
    add_problem(parser)
    add_measured(parser)
    parser.add_argument(
        "--placement", type=Path, metavar="PLAN.json", help="of this placement (default: the one `rod` makes)"
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    problem = load_problem(args.problem, measured=args.measured)
    if args.placement is None:
        placement = plan(problem, "rod", seed=args.seed).placement
        terminal.note("no --placement given: headroom of the placement that rod makes")
    else:
        placement = read_placement(args.placement, problem)
    room = headroom(problem, placement)
    terminal.document(
        {
            "version": 1,
            "problem": fingerprint(problem),
            "placement": placement.as_dict(),
            "headroom": room,
        }
    )
    terminal.print(headroom_table(room))
    return 0
