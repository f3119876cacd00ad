"""The placement that a verb looks at: the one it is given, or the one that a policy makes."""

from __future__ import annotations

import argparse
from pathlib import Path

from mooring.cli.input.parsing import Parser
from mooring.cli.output.terminal import Terminal
from mooring.model.placement.placement import Placement
from mooring.model.placement.placement_file import read_placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan

POLICY = "rod"


def add_placement(parser: Parser) -> None:
    parser.add_argument(
        "--placement",
        type=Path,
        metavar="PLAN.json",
        help=f"placement to use (default: the one that `{POLICY}` makes)",
    )


def given_placement(
    args: argparse.Namespace, problem: Problem, terminal: Terminal, looking_at: str
) -> Placement:
    """That of `--placement`; without it the one that `rod` makes, of which a note says what is done to it."""
    if args.placement is not None:
        return read_placement(args.placement, problem)
    terminal.note(f"no --placement: {looking_at} the placement that {POLICY} makes")
    return plan(problem, POLICY, seed=args.seed).placement
