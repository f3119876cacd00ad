"""`mooring simulate`: tuples through a placement in virtual time."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from mooring.algorithms.catalogue import HOSTED, Deciding
from mooring.cli.input.files import make_folder
from mooring.cli.input.given_algorithm import (
    ADAPT_SET_HELP,
    DECIDER_HELP,
    POLICY_HELP,
    given_decider,
    given_policy,
)
from mooring.cli.input.given_guards import add_guards, given_guards
from mooring.cli.input.given_placement import add_placement, given_placement
from mooring.cli.input.parsing import Parser, add_problem, number, positive_count, seconds, settings
from mooring.cli.input.problem_source import load_problem
from mooring.cli.output.adapted_view import print_comparison
from mooring.cli.output.tables import MOST_ROWS
from mooring.cli.output.terminal import Terminal
from mooring.errors import InputError
from mooring.model.placement.placement import Placement
from mooring.model.problem.changes.change import Changes
from mooring.model.problem.files import load_changes
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal
from mooring.simulator.data_plane.binding import Behaviour
from mooring.simulator.data_plane.figure import draw_report
from mooring.simulator.data_plane.report import SimulationReport, largest
from mooring.simulator.data_plane.simulate import simulate
from mooring.simulator.data_plane.workload import PROCESSES, workload
from mooring.simulator.runs.adapted_run import Circumstances, Way
from mooring.simulator.runs.figure import draw_comparison
from mooring.simulator.runs.variants import compare_ways, decided_by, never_moving, replanned

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DESCRIPTION = (
    "Reports end-to-end latencies, utilisation, queues over time, and whether the sites kept up. An "
    "overloaded run ends early and names the overloaded site. --changes applies timed changes; --adapt "
    "runs a decider on them, compared with never moving and with replanning from scratch."
)


def add_options(parser: Parser) -> None:
    add_problem(parser)
    add_placement(parser)
    parser.add_argument(
        "--seconds", type=seconds, default=60.0, help="seconds of virtual time to measure (default 60)"
    )
    parser.add_argument(
        "--warm-up",
        type=number,
        default=0.0,
        metavar="S",
        help="seconds of virtual time before the measurement",
    )
    parser.add_argument("--multiplier", type=number, default=1.0, help="factor on every stream's rate")
    parser.add_argument(
        "--arrivals",
        choices=list(PROCESSES),
        default="poisson",
        help="arrival process of streams without a trace",
    )
    parser.add_argument(
        "--trace",
        action="append",
        metavar="[STREAM=]TRACE",
        help=(
            "trace file, or one of bc-paug89-extract, worldcup98-extract; cut into sub-streams, or "
            "for one stream"
        ),
    )
    parser.add_argument("--batch", type=positive_count, default=1, help="tuples per event (default 1)")
    parser.add_argument(
        "--to-completion",
        action="store_true",
        help="process each tuple through all operators of a site before the next tuple",
    )
    parser.add_argument("--figure", type=Path, metavar="OUT.png", help="draw latency and queues over time")
    parser.add_argument(
        "--all", action="store_true", help=f"show all sites and queries, not only the worst {MOST_ROWS}"
    )
    add_scenario(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    problem = load_problem(args.problem)
    placement = given_placement(args, problem, terminal, "simulating")
    if args.warm_up < 0:
        raise InputError(f"found {args.warm_up}, expected seconds >= 0", field="--warm-up")
    changes = given_changes(args, problem)
    if changes or args.adapt is not None:
        return _run_scenario(args, problem, placement, changes, terminal)
    with terminal.progress("simulating") as progress:
        report = simulate(
            placement.problem,
            placement,
            seconds=args.seconds,
            warm_up_s=args.warm_up,
            seed=args.seed,
            arrivals=args.arrivals,
            trace=_trace(args.trace or (), problem),
            multiplier=args.multiplier,
            batch=args.batch,
            behaviour=Behaviour(to_completion=args.to_completion),
            progress=progress,
        )
    if args.figure is not None:
        _save(draw_report(report), args.figure)
        terminal.note(f"wrote {args.figure}")
    warnings = open_windows(placement.problem, args.warm_up + report.seconds)
    terminal.document(
        {
            "version": 1,
            "problem": fingerprint(problem),
            "settings": _settings(args),
            "warnings": warnings,
            **report.as_json(_most(args)),
        }
    )
    _print(report, terminal, _most(args))
    _print_warnings(warnings, terminal)
    return 0


def open_windows(problem: Problem, span_s: float) -> list[str]:
    """Windows longer than the simulation put out nothing, which looks like a query without results."""
    long = {
        operator.logical_name: operator.window_s
        for operator in problem.operators
        if operator.kind == "aggregate" and operator.window_s is not None and operator.window_s >= span_s
    }
    if not long:
        return []
    named = ", ".join(f"{name} ({decimal(window_s)} s)" for name, window_s in long.items())
    return [
        f"within {decimal(span_s)} s no window closed of {named}, so they put out nothing; "
        f"simulate longer, for example --seconds {decimal(2 * max(long.values()), 6)}"
    ]


def _print_warnings(warnings: Sequence[str], terminal: Terminal) -> None:
    for warning in warnings:
        terminal.print(f"[yellow]note:[/yellow] {escape(warning)}")


def _run_scenario(
    args: argparse.Namespace, problem: Problem, placement: Placement, changes: Changes, terminal: Terminal
) -> int:
    if args.warm_up:
        raise InputError("found --warm-up together with changes, whose times count from 0", field="--warm-up")
    arrivals = workload(
        problem,
        arrivals=args.arrivals,
        trace=_trace(args.trace or (), problem),
        multiplier=args.multiplier,
        seed=args.seed,
        changes=changes,
    )
    scenario = Circumstances(
        problem,
        placement,
        changes,
        args.seconds,
        tuple(arrivals),
        seed=args.seed,
        batch=args.batch,
        behaviour=Behaviour(to_completion=args.to_completion),
        policy=args.policy,
        guards=given_guards(args),
    )
    with terminal.progress("adapting") as progress:
        comparison = compare_ways(scenario, given_ways(args, scenario), progress)
    if args.figure is not None:
        _save(draw_comparison(comparison), args.figure)
        terminal.note(f"wrote {args.figure}")
    settings = {**_settings(args), "adapt": args.adapt or "none", "policy": args.policy}
    warnings = open_windows(problem, args.seconds)
    terminal.document(
        {
            "version": 1,
            "problem": fingerprint(problem),
            "settings": settings,
            "warnings": warnings,
            **comparison.as_json(_most(args)),
        }
    )
    print_comparison(comparison, terminal)
    _print_warnings(warnings, terminal)
    return 0


def _settings(args: argparse.Namespace) -> dict[str, object]:
    return {
        "seed": args.seed,
        "multiplier": args.multiplier,
        "arrivals": args.arrivals,
        "trace": args.trace,
        "to_completion": args.to_completion,
    }


def _trace(given: Sequence[str], problem: Problem) -> str | Mapping[str, str] | None:
    """`--trace TRACE` for all streams together, or `--trace STREAM=TRACE`, repeated."""
    named = {}
    for text in given:
        stream, equals, trace = text.partition("=")
        if equals and stream in problem.stream_index:
            named[stream] = trace
        elif len(given) > 1:
            raise InputError(
                f"found {text!r} among several traces, expected a stream for each",
                field="--trace",
                remedy="write STREAM=TRACE",
            )
        else:
            return text
    return named or None


def _save(figure: Figure, path: Path) -> None:
    make_folder(path.parent)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {error}", file=path, remedy="choose another --figure") from None


def _most(args: argparse.Namespace) -> int | None:
    return None if args.all else MOST_ROWS


def _print(report: SimulationReport, terminal: Terminal, most: int | None) -> None:
    queries = Table("query", box=None)
    for heading in ("tuples", "mean ms", "p50", "p95", "p99", "max", "limit", "within"):
        queries.add_column(heading, justify="right")
    latest = largest({name: query.latency.p99_ms for name, query in report.queries.items()}, most)
    for name in latest:
        query = report.queries[name]
        own = query.latency
        figures = [own.mean_ms, own.p50_ms, own.p95_ms, own.p99_ms, own.max_ms]
        cells = [decimal(value, 4) if value == value else "-" for value in figures]
        limit = "-" if query.max_latency_ms is None else f"{query.max_latency_ms:g}"
        within = "-" if query.within_limit is None else f"{query.within_limit:.1%}"
        queries.add_row(escape(name), f"{own.tuples:,}", *cells, limit, within)
    sites = Table("site", box=None)
    for heading in ("utilisation", "mean queue", "longest queue"):
        sites.add_column(heading, justify="right")
    busiest = largest({name: site.utilisation for name, site in report.sites.items()}, most)
    for name in busiest:
        site = report.sites[name]
        sites.add_row(
            escape(name), f"{site.utilisation:.1%}", decimal(site.mean_queue, 4), f"{site.max_queue:,.0f}"
        )
    if (rest := len(report.queries) - len(latest)) > 0:
        queries.add_row(f"[dim]{rest} more, with a lower p99: --all shows them[/dim]")
    if (rest := len(report.sites) - len(busiest)) > 0:
        used = fmean(site.utilisation for site in report.sites.values())
        sites.add_row(f"[dim]{rest} more, less busy: --all shows them[/dim]")
        sites.add_row("all sites, on average", f"{used:.1%}")
    terminal.print(queries)
    terminal.print()
    terminal.print(sites)
    terminal.print()
    colour = "red" if report.overloaded else "green"
    terminal.print(f"[{colour}]{escape(report.verdict)}[/{colour}]")
    terminal.print(f"{decimal(report.seconds, 4)} s of virtual time, {report.events:,} events")


def add_scenario(parser: Parser) -> None:
    parser.add_argument(
        "--changes", type=Path, metavar="C.yaml", help="file of timed changes (default: the problem's own)"
    )
    parser.add_argument("--adapt", metavar="NAME", help=f"decider that proposes moves: {DECIDER_HELP}")
    parser.add_argument(
        "--alone",
        action="store_true",
        help="run without the comparisons `never moved` and `replanned from scratch`",
    )
    parser.add_argument(
        "--policy", metavar="NAME", default="rod", help=f"with --adapt replan: {POLICY_HELP} (default rod)"
    )
    parser.add_argument(
        "--adapt-set",
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=ADAPT_SET_HELP,
    )
    add_guards(parser)


def given_changes(args: argparse.Namespace, problem: Problem) -> Changes:
    return problem.changes if args.changes is None else load_changes(args.changes, problem)


def given_ways(args: argparse.Namespace, scenario: Circumstances) -> list[Way]:
    """Never moving, the decider asked for, and replanning from scratch."""
    asked = Deciding(args.policy, settings(args.adapt_set, "--adapt-set"), args.seed)
    given_policy(args.policy, {})  # a name that is not known is refused before anything is simulated
    adapt = args.adapt or "none"
    decider = given_decider(adapt, asked, "--adapt-set")
    chosen = decided_by(decider, adapt if adapt in HOSTED else "", asked.settings)
    if args.alone:
        return [chosen]
    own = [] if adapt == "none" else [chosen]
    return [never_moving(), *own, replanned(scenario)]
