"""`mooring evaluate`: the metrics of any placement."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.markup import escape

from mooring.cli.input.parsing import Parser, add_problem
from mooring.cli.input.problem_source import add_measured, load_problem
from mooring.cli.output.tables import latency_table, metric_lines, rejections, site_table
from mooring.cli.output.terminal import Terminal
from mooring.errors import InfeasibleError
from mooring.model.load.build import build_load_model
from mooring.model.load.limits import require_some_capacity
from mooring.model.placement.checker import violations
from mooring.model.placement.placement_file import read_placement
from mooring.model.problem.fingerprint import fingerprint
from mooring.planning import evaluate

DESCRIPTION = (
    "Prints the metrics of a placement. Reports violated rules of the problem without refusing the placement."
)


def add_options(parser: Parser) -> None:
    add_problem(parser)
    add_measured(parser)
    parser.add_argument(
        "--placement",
        type=Path,
        metavar="PLAN.json",
        required=True,
        help="a plan as `mooring plan --json` prints it, or a mapping of operators to sites",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    problem = load_problem(args.problem, measured=args.measured)
    placement = read_placement(args.placement, problem)
    placed = placement.problem
    model = build_load_model(placed)
    wrong = violations(placed, model, placement)
    metrics = None
    try:
        require_some_capacity(model)
        metrics = evaluate(problem, placement, seed=args.seed)
    except InfeasibleError as error:
        wrong = [*wrong, str(error)]
    terminal.document(
        {
            "version": 1,
            "problem": fingerprint(problem),
            "placement": placement.as_dict(),
            "rejected": dict(placement.rejected),
            "metrics": {} if metrics is None else metrics.as_json(),
            "violations": wrong,
        }
    )
    if placement.rejected:
        terminal.print(f"the placement{rejections(placement.rejected, len(problem.queries))}")
    terminal.print(site_table(model, placement))
    if metrics is not None:
        terminal.print(metric_lines(metrics))
        if (latencies := latency_table(metrics)) is not None:
            terminal.print(latencies)
    for violation in wrong:
        terminal.print(f"[red]not allowed:[/red] {escape(violation)}")
    return 0
