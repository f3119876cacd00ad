"""`mooring compare`: several policies on one problem, side by side."""

from __future__ import annotations

import argparse

from rich.markup import escape

from mooring.algorithms.catalogue import POLICIES
from mooring.cli.input.clock import Timed
from mooring.cli.input.given_algorithm import given_policy
from mooring.cli.input.parsing import Parser, add_problem, names
from mooring.cli.input.problem_source import load_problem
from mooring.cli.output.tables import comparison_tables, rejections
from mooring.cli.output.terminal import Terminal
from mooring.errors import InputError
from mooring.planning import compare

DESCRIPTION = "Runs several policies on one problem, prints their metrics and highlights the best."


def add_options(parser: Parser) -> None:
    add_problem(parser)
    parser.add_argument("--policies", type=names, metavar="A,B,C", help="policies to compare (default: all)")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    chosen = tuple(POLICIES) if args.policies is None else tuple(dict.fromkeys(args.policies))
    if not chosen:
        raise InputError("found no policy, expected at least one", field="--policies")
    problem = load_problem(args.problem)
    with terminal.progress("comparing policies") as report:
        # A name that is not known is an error before any work, not a row of the table.
        policies = [Timed(given_policy(name, {}, "--policies")) for name in chosen]
        found = compare(problem, policies, seed=args.seed, progress=report)
    seconds = {policy.name: policy.seconds for policy in policies}
    terminal.document(found.document(seconds))
    terminal.print(f"[bold]{escape(str(args.problem))}[/bold]")
    if found.plans:
        metrics = {name: made.metrics for name, made in found.plans.items()}
        partial = [name for name, made in found.plans.items() if made.rejected]
        for table in comparison_tables(metrics, seconds, terminal.out.width, partial):
            terminal.print(table)
    for name, made in found.items():
        if isinstance(made, str):
            terminal.print(f"[yellow]{escape(name)}[/yellow] left out: {escape(made)}")
        elif made.rejected:
            said = rejections(made.rejected, len(problem.queries))
            terminal.print(f"[yellow]{escape(name)}[/yellow]{escape(said)}")
        elif made.overload is not None:
            terminal.print(f"[yellow]{escape(name)}[/yellow] overloads {escape(made.overload.named)}")
    if found.best is not None:
        worth = found.worth(found.best)
        share = f"10^{worth:.1f}" if found.best_by.endswith("_log10") else f"{worth:.1%}"
        terminal.print(
            f"[bold green]{escape(found.best)}[/bold green] has the largest feasible set: "
            f"{share} of the rates within the total capacity."
        )
    return 0
