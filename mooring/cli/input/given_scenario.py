"""Changes, deciders and guards from a command line."""

from __future__ import annotations

import argparse
from pathlib import Path

from mooring.algorithms.catalogue import DECIDERS, POLICIES, TAKE_SETTINGS, Deciding
from mooring.cli.input.given_guards import add_guards
from mooring.cli.input.parsing import Parser, settings
from mooring.errors import InputError
from mooring.model.problem.changes.change import Changes
from mooring.model.problem.files import load_changes
from mooring.model.problem.problem import Problem
from mooring.simulator.runs.adapted_run import Circumstances, Way
from mooring.simulator.runs.variants import decided_by, never_moving, replanned


def add_scenario(parser: Parser) -> None:
    parser.add_argument(
        "--changes", type=Path, metavar="C.yaml", help="what happens meanwhile (default: the problem's own)"
    )
    parser.add_argument("--adapt", choices=list(DECIDERS), help="who decides what is moved")
    parser.add_argument("--alone", action="store_true", help="not beside never moving and replanning")
    parser.add_argument(
        "--policy", choices=list(POLICIES), default="rod", help="that replans (default rod), with --adapt"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of the policy that replans; with --adapt ants, of the ants",
    )
    add_guards(parser)


def given_changes(args: argparse.Namespace, problem: Problem) -> Changes:
    return problem.changes if args.changes is None else load_changes(args.changes, problem)


def given_ways(args: argparse.Namespace, scenario: Circumstances) -> list[Way]:
    """Never moving, the decider asked for, and replanning from scratch."""
    given = settings(args.set)
    if given and args.adapt not in TAKE_SETTINGS:
        raise InputError(
            f"found settings with --adapt {args.adapt or 'none'}, which has none",
            field="--set",
            remedy=f"they are for --adapt {' and '.join(TAKE_SETTINGS)}",
        )
    chosen = decided_by(args.adapt or "none", Deciding(args.policy, given, args.seed))
    if args.alone:
        return [chosen]
    asked = [] if chosen.name == "none" else [chosen]
    return [never_moving(), *asked, replanned(scenario)]
