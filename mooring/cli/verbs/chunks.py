"""`mooring chunks`: how finely to cut each operator's arrays, and which site computes which chunk."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from mooring.chunks.files.chunk_file import load_chunk_problem
from mooring.chunks.files.plan_figure import LETTERS, draw_plan, text_picture
from mooring.chunks.files.plan_file import chunk_fingerprint, load_chunk_plan, operators_document
from mooring.chunks.model import ChunkPlan, ChunkProblem
from mooring.chunks.search.evaluation import Assignment
from mooring.chunks.search.planning import PlannedChunks, PlanningParams, SearchMethod, plan_chunks
from mooring.chunks.search.search_log import StoppingRules
from mooring.cli.input.clock import deadline_in
from mooring.cli.input.files import make_folder, write_text
from mooring.cli.input.parsing import Parser, positive_count, seconds
from mooring.cli.output.terminal import Terminal, as_json_text
from mooring.errors import InputError
from mooring.quantity import milliseconds

DESCRIPTION = (
    "Partitions every operator's array into chunks and assigns each chunk to a site. A search over "
    "simulations finds the plan. Prints the predicted latency beside a lower bound for all chunk plans."
)


def add_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="chunk file, YAML or JSON")
    parser.add_argument(
        "--assign",
        choices=[str(each) for each in Assignment],
        default=str(Assignment.TIERED),
        help="how chunks are assigned to sites (default tiered)",
    )
    parser.add_argument(
        "--search",
        choices=[str(each) for each in SearchMethod],
        default=str(SearchMethod.CYCLICAL),
        help="how partitionings are searched (default cyclical)",
    )
    defaults = PlanningParams()
    parser.add_argument(
        "--most-chunks",
        type=positive_count,
        default=defaults.most_chunks,
        metavar="N",
        help=f"most chunks per operator (default {defaults.most_chunks})",
    )
    parser.add_argument(
        "--frames",
        type=positive_count,
        default=defaults.frames,
        metavar="N",
        help=f"frames simulated per candidate (default {defaults.frames})",
    )
    parser.add_argument("--budget", type=seconds, metavar="SECONDS", help="time limit of the command")
    parser.add_argument(
        "--steps",
        type=positive_count,
        metavar="N",
        help="limit of the search in simulated candidates (reproducible)",
    )
    parser.add_argument(
        "--from", type=Path, metavar="PLAN.json", dest="before", help="start from this chunk plan"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the chunk plan as JSON")
    parser.add_argument("--figure", type=Path, metavar="OUT.png", help="draw the work and the chunks")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    problem = load_chunk_problem(args.file)
    before = None if args.before is None else load_chunk_plan(args.before)
    params = PlanningParams(
        assignment=Assignment(args.assign),
        search=SearchMethod(args.search),
        most_chunks=args.most_chunks,
        frames=args.frames,
        skip=min(PlanningParams().skip, args.frames - 1),
    )
    evaluations = StoppingRules().most_evaluations if args.steps is None else args.steps
    spent_s = time.monotonic() - args.begun_s
    rules = StoppingRules(deadline=deadline_in(args.budget, spent_s), most_evaluations=evaluations)
    began_s = time.monotonic()
    with terminal.progress("searching"):
        planned = plan_chunks(problem, params, seed=args.seed, rules=rules, before=before)
    document = chunks_document(problem, params, planned, time.monotonic() - began_s)
    if args.output is not None:
        write_text(args.output, as_json_text(document))
    if args.figure is not None:
        _draw(problem, planned.plan, args.figure)
    terminal.document(document)
    _print(args, problem, planned, terminal)
    return 0


def chunks_document(
    problem: ChunkProblem, params: PlanningParams, planned: PlannedChunks, plan_seconds: float
) -> dict[str, object]:
    plan = planned.plan
    return {
        "version": 1,
        "problem": chunk_fingerprint(problem),
        "assign": str(params.assignment),
        "search": str(params.search),
        "operators": operators_document(plan),
        "latency_ms": plan.latency_ms,
        "latency_bound_ms": plan.latency_bound_ms,
        "load": problem.load(),
        "evaluations": planned.log.evaluations,
        "plan_seconds": plan_seconds,
    }


def _draw(problem: ChunkProblem, plan: ChunkPlan, path: Path) -> None:
    make_folder(path.parent)
    try:
        # No date or version inside: the same plan gives the same bytes.
        draw_plan(problem, plan).savefig(path, dpi=150, metadata={"Software": None})
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {error}", file=path, remedy="choose another --figure") from None


def _print(
    args: argparse.Namespace, problem: ChunkProblem, planned: PlannedChunks, terminal: Terminal
) -> None:
    plan, sites = planned.plan, [site.name for site in problem.sites]
    terminal.print(
        f"[bold]{escape(str(args.file))}[/bold] cut by [bold]{args.search}[/bold] search, "
        f"assigned by [bold]{args.assign}[/bold]"
    )
    table = Table("operator", "array", "chunks", "each at most", "sites", box=None)
    for operator in problem.operators:
        own = plan.operators[operator.name]
        largest = max(own.partitioning.bounds(operator.shape), key=lambda box: box.cells)
        shares = Counter(own.sites)
        table.add_row(
            escape(operator.name),
            _times(operator.shape),
            f"{own.partitioning} = {own.partitioning.count}",
            _times(largest.shape),
            escape(", ".join(f"{site} {shares[site]}" for site in sites if shares[site]) or "as they come"),
        )
    terminal.print(table)
    for operator in problem.operators:
        own = plan.operators[operator.name]
        if own.partitioning.count > 1:
            terminal.print(
                f"\n{escape(operator.name)}: the work in its first frame"
                + (", and the site of each chunk" if own.sites else "")
            )
            for line in text_picture(operator, own, sites):
                terminal.print(f"  {escape(line)}")
    if any(own.sites for own in plan.operators.values()):
        letters = ", ".join(f"{LETTERS[k % len(LETTERS)]} {name}" for k, name in enumerate(sites))
        terminal.print(f"\n{escape(letters)}")
    gap = plan.latency_ms / plan.latency_bound_ms - 1 if plan.latency_bound_ms else 0.0
    terminal.print(
        f"\npredicted latency [bold]{milliseconds(plan.latency_ms)}[/bold] per frame; no chunk plan is below "
        f"{milliseconds(plan.latency_bound_ms)} ({gap:.1%} above it)"
    )
    terminal.print(
        f"load {problem.load():.0%} of all sites; {planned.log.evaluations:,} candidates simulated"
    )
    for path in (args.output, args.figure):
        if path is not None:
            terminal.print(f"Wrote {escape(str(path))}")


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
