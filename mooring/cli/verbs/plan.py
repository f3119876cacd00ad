"""`mooring plan`: where each operator should run, and why."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.markup import escape

from mooring.cli.input.clock import Timed, placing_deadline
from mooring.cli.input.files import write_text
from mooring.cli.input.given_algorithm import POLICY_HELP, given_policy
from mooring.cli.input.parsing import Parser, add_problem, count, seconds, settings
from mooring.cli.input.problem_source import (
    assumed_sentence,
    left_sites,
    read_source,
    source_notes,
    source_sentences,
)
from mooring.cli.output.tables import (
    latency_table,
    metric_lines,
    rejections,
    sentences,
    shared_sentences,
    site_table,
)
from mooring.cli.output.terminal import Terminal, as_json_text
from mooring.controller.initial_placement import plan_around
from mooring.errors import InfeasibleError, InputError
from mooring.model.placement.closed_sites import closed_problem
from mooring.model.placement.placement_file import read_placement
from mooring.planning import plan

DESCRIPTION = (
    "Places the operators of a problem on its sites. Prints the metrics of the placement, an explanation, "
    "and the change that would improve it most."
)


def add_options(parser: Parser) -> None:
    add_problem(parser)
    parser.add_argument("--policy", metavar="NAME", default="rod", help=f"{POLICY_HELP} (default rod)")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="parameter of the policy, repeatable"
    )
    parser.add_argument(
        "--budget",
        type=seconds,
        metavar="SECONDS",
        help="time limit of the command, for policies that improve step by step",
    )
    parser.add_argument(
        "--steps", type=count, metavar="N", help="limit of such policies in steps (reproducible)"
    )
    parser.add_argument(
        "--from", type=Path, metavar="PLAN.json", dest="current", help="running placement to start from"
    )
    parser.add_argument(
        "--max-moves", type=count, metavar="N", help="with --from: most fragments that change their site"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="compute also the metrics that large problems leave out to save time",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the plan as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.max_moves is not None and args.current is None:
        raise InputError(
            "found --max-moves without --from", field="--max-moves", remedy="add --from PLAN.json"
        )
    reading_s = time.monotonic()
    problem, layout = read_source(args.problem)
    read_s = time.monotonic() - reading_s
    notes, left = source_notes(layout), left_sites(layout)
    current = None if args.current is None else read_placement(args.current, problem)
    policy = Timed(given_policy(args.policy, settings(args.set)))
    with terminal.progress(f"planning with {args.policy}") as report:
        around = plan(
            closed_problem(problem, left),
            policy,
            seed=args.seed,
            steps=args.steps,
            deadline=placing_deadline(
                args.budget,
                time.monotonic() - args.begun_s,
                read_s,
                # The latencies and bytes of queries are judged whatever a policy is about.
                "network" if problem.queries else policy.about,
            ),
            progress=report,
            current=current,
            max_moves=args.max_moves,
            thorough=args.all,
        )
        made = plan_around(problem, left, around)
        document = made.document(policy.seconds)
    said = source_sentences(layout, made)
    document["explanation"] = said
    if layout is not None:
        document["statistics"] = notes
        document["left_sites"] = left
    if args.output is not None:
        write_text(args.output, as_json_text(document))
    terminal.document(document)
    if not terminal.as_json:
        terminal.print(
            f"[bold]{escape(str(args.problem))}[/bold] placed by [bold]{made.policy}[/bold]"
            f"{escape(rejections(made.rejected, len(problem.queries)))}"
        )
        for query, reason in made.rejected.items():
            terminal.print(f"[red]rejected[/red] {escape(query)}: {escape(reason)}")
        terminal.print(site_table(made.model, made.placement))
        terminal.print(metric_lines(made.metrics))
        latencies = latency_table(made.metrics)
        if latencies is not None:
            terminal.print(latencies)
        terminal.print()
        terminal.print(sentences([*said, *shared_sentences(made.shared)]))
        for site in left:
            terminal.print(escape(f"{site} is kept empty; open it with `mooring moves --return {site}`"))
        for note in notes:
            terminal.print(f"[yellow]statistics:[/yellow] {escape(note)}")
        if args.output is not None:
            terminal.print(f"Wrote {escape(str(args.output))}")
    if made.overload is None:
        return 0
    if assumed_sentence(layout) is not None:
        terminal.note("the costs behind this overload are assumed; `mooring profile` measures them")
        return 0
    return InfeasibleError.exit_code
