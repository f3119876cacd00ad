"""`mooring check`: is this a problem file, what is in it, and what looks odd about it?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mooring.atomic_files import write_whole
from mooring.cli.input.parsing import Parser, add_problem
from mooring.cli.input.problem_source import is_project, read_source, source_notes
from mooring.cli.output.graph_tree import GraphTree
from mooring.cli.output.terminal import Terminal
from mooring.errors import EngineError, InfeasibleError, InputError
from mooring.model.load.build import build_load_model
from mooring.model.load.limits import require_some_capacity
from mooring.model.load.model import LoadModel
from mooring.model.placement.network_metrics import least_latencies_ms
from mooring.model.placement.site_limits import SLACK, without_room
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.fields import refuse_key
from mooring.quantity import decimal, milliseconds
from mooring.spark.needs_spark import require_spark

if TYPE_CHECKING:
    from mooring.spark.pipeline.layout import Layout

DESCRIPTION = (
    "Validates a problem file or a project and summarises it. An error names the field and the remedy."
)


def add_options(parser: Parser) -> None:
    add_problem(parser)
    parser.add_argument(
        "--reread",
        action="store_true",
        help="for a project: let Spark read its graph again, even if no definition has changed",
    )
    parser.add_argument(
        "--site",
        metavar="NAME",
        help="for a project: try all that this site needs, and say what is missing there",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.site is not None:
        return _check_site(args, terminal)
    problem, layout = read_source(args.problem, reread=args.reread)
    model = build_load_model(problem)
    counts = count_parts(problem, model)
    left_out = [model.variables[k].name for k in range(model.stream_count) if model.totals[k] == 0.0]
    impossible, loads = infeasibilities(problem, model), operator_loads(problem, model)
    warnings, notes = find_warnings(problem, model), source_notes(layout)
    warnings += [] if layout is None else _project_notes(layout)
    survives = {} if layout is None else _power_cut_notes(layout)
    partitions, kept_notes = ({}, []) if layout is None else _partitions(layout)
    terminal.document(
        {
            "version": 1,
            "problem": fingerprint(problem),
            **counts,
            "variables": [{"name": v.name, "kind": v.kind} for v in model.variables],
            "left_out": left_out,
            "feasible": not impossible,
            "warnings": [*impossible, *warnings],
            "loads": loads,
            **(
                {}
                if layout is None
                else {"statistics": notes, "power_cut": survives, "partitions": partitions}
            ),
            **({"graph_kept_from": layout.graph_kept_from} if layout and layout.graph_kept_from else {}),
        }
    )
    terminal.print(f"[bold]{escape(str(args.problem))}[/bold]: " + _sentence(counts))
    terminal.print(GraphTree(problem, loads=loads).build())
    if layout is not None:
        terminal.print(f"graph drawn in {escape(str(_draw_graph(layout)))}")
        if layout.graph_kept_from:
            terminal.print(
                f"graph as Spark read it at {layout.graph_kept_from}: no definition has changed since "
                "(--reread reads it again)"
            )
    for stream in left_out:
        terminal.print(f"[yellow]note:[/yellow] {escape(stream)} loads nothing, so its rate does not matter")
    for note in notes:
        terminal.print(f"[yellow]statistics:[/yellow] {escape(note)}")
    for count in dict.fromkeys(each["count"] for each in partitions.values()):
        names = ", ".join(name for name, each in partitions.items() if each["count"] == count)
        terminal.print(f"shuffle partitions: {count} ({escape(names)})")
    for note in kept_notes:
        terminal.print(f"[yellow]note:[/yellow] {escape(note)}")
    for what in dict.fromkeys(survives.values()):
        sites = ", ".join(site for site, own in survives.items() if own == what)
        terminal.print(f"power cut: {escape(what)} ({escape(sites)})")
    for warning in warnings:
        terminal.print(f"[yellow]note:[/yellow] {escape(warning)}")
    for reason in impossible:
        terminal.print(f"[red]infeasible:[/red] {escape(reason)}")
    return InfeasibleError.exit_code if impossible else 0


def _check_site(args: argparse.Namespace, terminal: Terminal) -> int:
    """All that a run needs of one site, tried there."""
    if not is_project(args.problem):
        raise InputError("found a problem file, expected a project", file=args.problem, field="--site")
    require_spark(file=args.problem)
    from mooring.spark.pipeline.project import load_project
    from mooring.spark.runs.site_check import checked_site

    project = load_project(args.problem)
    if args.site not in project.settings.around.site_names:
        refuse_key(args.site, list(project.settings.around.site_names), "--site")
    with terminal.progress(f"trying {args.site}") as report:
        findings = checked_site(project, args.site, lambda line: report(0.0, line))
    missing = [each for each in findings if each.state == "missing"]
    terminal.document(
        {
            "version": 1,
            "site": args.site,
            "holds": not missing,
            "findings": [each.as_json() for each in findings],
        }
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("", args.site, "found", "to do"):
        table.add_column(heading, overflow="fold")
    styles = {"holds": "green", "missing": "red", "better": "yellow", "not compared": "yellow"}
    for each in findings:
        state = Text(each.state, style=styles[each.state])
        table.add_row(state, each.what, Text(each.found), Text(each.remedy))
    terminal.print(table)
    count = len(missing)
    terminal.print(
        f"{escape(args.site)} has all that a run needs"
        if not missing
        else f"{count} thing{'' if count == 1 else 's'} missing at {escape(args.site)}"
    )
    return EngineError.exit_code if missing else 0


def count_parts(problem: Problem, model: LoadModel) -> dict[str, object]:
    return {
        "sites": len(problem.sites),
        "capacity_cores": float(problem.capacity_cores.sum()),
        "streams": len(problem.streams),
        "operators": len(problem.operators),
        "fragments": len(problem.fragments),
        "queries": len(problem.queries),
        "pinned": int((model.pinned_site >= 0).sum()),
        "present_load_cores": float(model.totals @ model.present + model.fixed_cores.sum()),
    }


def _sentence(counts: dict[str, object]) -> str:
    return (
        f"{_counted(counts, 'operator')} in {_counted(counts, 'fragment')} ({counts['pinned']} pinned) "
        f"{'reads' if counts['operators'] == 1 else 'read'} {_counted(counts, 'stream')} for "
        f"{_counted(counts, 'query', 'queries')} on {_counted(counts, 'site')}; "
        f"present load {_cores(counts, 'present_load_cores')} of {_cores(counts, 'capacity_cores')} cores"
    )


def _cores(counts: dict[str, object], name: str) -> str:
    return decimal(cast(float, counts[name]))


def _counted(counts: dict[str, object], one: str, many: str = "") -> str:
    number = counts[many or f"{one}s"]
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def infeasibilities(problem: Problem, model: LoadModel) -> list[str]:
    """Why no placement can do."""
    try:
        require_some_capacity(model)
    except InfeasibleError as error:
        return [str(error)]
    return [str(error) for error in without_room(model, problem)]


def operator_loads(problem: Problem, model: LoadModel) -> dict[str, float]:
    """Cores at the present rates, by operator, the instances of a split one together."""
    present = model.operator_coefficients @ model.present
    found: dict[str, float] = {}
    for operator, cores in zip(problem.operators, present.tolist(), strict=True):
        own = cores + operator.fixed_cores
        found[operator.logical_name] = found.get(operator.logical_name, 0.0) + own
    return found


def find_warnings(problem: Problem, model: LoadModel) -> list[str]:
    """What is allowed but probably not meant."""
    warnings: list[str] = []
    load = float(model.totals @ model.present)
    if load > model.capacity_left_cores:
        warnings.append(
            f"the present rates need {decimal(load)} cores, more than the "
            f"{decimal(model.capacity_left_cores)} that all sites have left"
        )
    if problem.queries:
        consumed = {query.reads for query in problem.queries}
        read = {source for operator in problem.operators for source in operator.inputs}
        names = dict.fromkeys(o.logical_name for o in problem.operators if o.load is None)
        idle = [name for name in names if name not in consumed and name not in read]
        if idle:
            shown = ", ".join(idle[:5]) + (f" and {len(idle) - 5} more" if len(idle) > 5 else "")
            warnings.append(f"no operator or query reads {shown}")
    if problem.network.latency_ms is None and any(query.max_latency_ms for query in problem.queries):
        warnings.append("queries have latency limits but latency_ms is not stated")
    return warnings + _full_pins(problem, model) + _late_queries(problem)


def _full_pins(problem: Problem, model: LoadModel) -> list[str]:
    """Sites that what is pinned to them fills at the present rates."""
    pinned = np.flatnonzero(model.pinned_site >= 0)
    loads = model.coefficients[pinned] @ model.present + model.fixed_cores[pinned]
    sums = np.bincount(model.pinned_site[pinned], loads, len(problem.sites))
    return [
        f"what is pinned to {site.name} needs {decimal(load)} cores at the present rates, more than its "
        f"{site.capacity:g}"
        for site, load in zip(problem.sites, sums.tolist(), strict=True)
        if load > site.capacity
    ]


def _late_queries(problem: Problem) -> list[str]:
    if not any(query.max_latency_ms for query in problem.queries):
        return []
    return [
        f"the query {query.name} cannot keep its limit of {milliseconds(query.max_latency_ms)}: with these "
        f"pins and latencies, no placement is below {milliseconds(least_ms)}"
        for query, least_ms in zip(problem.queries, least_latencies_ms(problem), strict=True)
        if query.max_latency_ms is not None and least_ms > query.max_latency_ms * (1.0 + SLACK)
    ]


def _project_notes(layout: Layout) -> list[str]:
    """What a reader should know about a project before a run, in words."""
    from mooring.spark.connectors.formats import delivery_note
    from mooring.spark.definitions.foreign_tables import lent_notes
    from mooring.spark.pipeline.path_notes import path_notes
    from mooring.spark.pipeline.site_options import executor_notes, jar_notes
    from mooring.spark.tables.costly_tables import costly_tables_note
    from mooring.spark.views.static_reads import update_notes

    deliveries = [delivery_note(sink.name, sink.sink_format) for sink in layout.pipeline.sinks]
    said = [note for note in deliveries if note is not None]
    said += path_notes(layout) + lent_notes(layout.pipeline.lent)
    seen = executor_notes(layout.project)
    return jar_notes(layout.project) + seen + said + costly_tables_note(layout) + update_notes(layout)


def _power_cut_notes(layout: Layout) -> dict[str, str]:
    """What survives a power cut, by site."""
    from mooring.spark.pipeline.site_options import power_cut_notes

    return power_cut_notes(layout.project)


def _partitions(layout: Layout) -> tuple[dict[str, dict[str, object]], list[str]]:
    """Of the fragments with state, and what to know about them."""
    from mooring.spark.pipeline.shuffle_partitions import partition_notes, shuffling

    found = shuffling(layout)
    return {name: of.as_json() for name, of in found.items()}, partition_notes(found)


def _draw_graph(layout: Layout) -> Path:
    """A project's graph as a picture, among Mooring's own files."""
    from mooring.spark.runs.record.graph_drawing import graph_svg

    file = layout.project.work_folder / "graph.svg"
    write_whole(file, graph_svg(layout))
    return file
