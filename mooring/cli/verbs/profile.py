"""`mooring profile`: measure the costs of a pipeline's fragments, on sample data."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from mooring.cli.input.parsing import Parser, add_project, positive_count
from mooring.cli.output.terminal import Terminal
from mooring.errors import EngineError, InputError
from mooring.quantity import decimal
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.statistics_file import MeasuredStatistics
from mooring.spark.pipeline.statistics_used import CostSource
from mooring.spark.profile.profile_options import BATCHES, PASSES, ProfileOptions
from mooring.spark.profile.project_profile import profile_project

DESCRIPTION = (
    "Runs every fragment of a project on sample data, alone at one site. Writes the measured costs to "
    "statistics.yml, which later plans use. Takes one to four minutes per fragment."
)


def add_options(parser: Parser) -> None:
    add_project(parser)
    parser.add_argument(
        "--sample",
        type=Path,
        metavar="DIR",
        help=(
            "sample rows as files in DIR/DATASET/, in the format of each source (default: the "
            "sources' own files)"
        ),
    )
    parser.add_argument(
        "--batches",
        type=positive_count,
        metavar="N",
        default=BATCHES,
        help=f"batches per fragment in each of {PASSES} passes (default {BATCHES})",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.sample is not None and not args.sample.is_dir():
        raise InputError("no such folder", file=args.sample, field="--sample")
    project = load_project(args.project)
    options = ProfileOptions(batches=args.batches, sample=args.sample)
    with terminal.progress(f"profiling {project.spec.name}") as report:
        made = profile_project(project, options, report)
    terminal.document(
        {
            "version": 1,
            "file": str(made.file),
            "at": made.statistics.at,
            "on": dict(made.statistics.on),
            "look_cpu_s": made.statistics.look_cpu_s,
            "idle_cores": made.statistics.idle_cores,
            "flows": {name: asdict(own) for name, own in made.statistics.flows.items()},
            "not_measured": made.unmeasured,
            "before": {name: asdict(was) for name, was in made.before.items()},
        }
    )
    terminal.print(_table(made.statistics))
    for line in added_lines(made.statistics, made.before):
        terminal.print(escape(line))
    for name, reason in made.unmeasured.items():
        terminal.print(f"[yellow]not measured:[/yellow] {escape(name)}: {escape(reason)}")
    terminal.print(f"Wrote {escape(str(made.file))}")
    return 0 if made.statistics.flows else EngineError.exit_code


def added_lines(statistics: MeasuredStatistics, before: Mapping[str, CostSource]) -> list[str]:
    """What plans from now on know that they did not know, flow by flow.

    >>> from mooring.spark.pipeline.statistics_file import FlowStatistics
    >>> measured = MeasuredStatistics({"a": FlowStatistics(cost_us=4.2, batch_cpu_s=0.31)})
    >>> added_lines(measured, {"a": CostSource("assumed", 20.0, 0.2)})
    ['a: plans now use 4.2 us per row and 0.31 CPU s per batch, until now the assumed 20 and 0.2']
    >>> added_lines(measured, {"a": CostSource("stated", 7.0, 0.2)})
    ['a: plans still use 7 us per row and 0.2 CPU s per batch, as stated; profiled: 4.2 and 0.31']
    """
    origins = {
        "profiled": "those of the last profile,",
        "learnt": "those learnt by runs,",
        "assumed": "the assumed",
    }
    lines = []
    for name, own in statistics.flows.items():
        was, now = before[name], _costs(own.cost_us, own.batch_cpu_s)
        if was.source == "stated":
            stated = _costs(was.cost_us, was.batch_cpu_s)
            lines.append(
                f"{name}: plans still use {_in_words(stated)}, as stated; profiled: {' and '.join(now)}"
            )
            continue
        until = " and ".join(_costs(was.cost_us, was.batch_cpu_s))
        lines.append(f"{name}: plans now use {_in_words(now)}, until now {origins[was.source]} {until}")
    return lines


def _costs(cost_us: float | None, batch_cpu_s: float | None) -> list[str]:
    return [decimal(value) for value in (cost_us, batch_cpu_s) if value is not None]


def _in_words(costs: list[str]) -> str:
    units = ("us per row", "CPU s per batch")
    return " and ".join(f"{value} {unit}" for value, unit in zip(costs, units, strict=False))


def _table(statistics: MeasuredStatistics) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in (
        "flow",
        "us per row",
        "CPU s per batch",
        "rows out per row in",
        "bytes per row",
        "batches",
    ):
        table.add_column(column, justify="left" if column == "flow" else "right")
    for name, own in statistics.flows.items():
        table.add_row(
            escape(name),
            _with_error(own.cost_us, own.cost_us_error),
            _with_error(own.batch_cpu_s, own.batch_cpu_s_error),
            _with_error(own.selectivity, own.selectivity_error),
            "" if own.bytes is None else f"{own.bytes:.1f}",
            "" if own.batches is None else str(own.batches),
        )
    return table


def _with_error(value: float | None, error: float | None) -> str:
    if value is None:
        return ""
    return decimal(value) + ("" if not error else f" ± {decimal(error, 1)}")
