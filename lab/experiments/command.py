"""`mooring experiment`: a figure or table of the papers, computed anew, as CSV and PNG."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Collection, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from lab.experiments.experiment import Experiment
from lab.experiments.registry import EXPERIMENTS, find_experiment
from lab.experiments.summary import summarise
from lab.experiments.trials import Row, trials_on_spark, trials_run_by
from mooring.cli.input.files import make_folder, write_text
from mooring.cli.input.on_spark import add_on_spark, is_on_spark
from mooring.cli.input.parsing import Parser
from mooring.cli.input.stop_signals import stop_signals
from mooring.cli.output.tables import result_table
from mooring.cli.output.terminal import Terminal
from mooring.errors import InputError
from mooring.progress import Report
from mooring.spark.needs_spark import require_spark

DESCRIPTION = (
    "Runs an experiment of the papers. Prints a summary of its trials, and writes a row per trial to "
    "NAME.csv and a figure to NAME.png."
)


def add_options(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="experiment to run (default: list all)")
    parser.add_argument("--quick", action="store_true", help="fewer trials: seconds instead of minutes")
    add_on_spark(parser)
    parser.add_argument(
        "--output", type=Path, metavar="DIR", default=Path("out"), help="folder for the files (default out)"
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.name is None:
        _list(EXPERIMENTS.values(), terminal)
        return 0
    experiment = find_experiment(args.name)
    make_folder(args.output)
    with terminal.progress(experiment.title) as report:
        if experiment.drives_sites:
            rows = _rows_of_sites(experiment, args, terminal, report)
        else:
            rows = _rows(experiment, args, report)
    sentences = experiment.conclude(rows) if experiment.conclude else []
    table, figure = args.output / f"{experiment.name}.csv", args.output / f"{experiment.name}.png"
    write_text(table, csv_text(experiment, rows))
    _save(experiment, rows, figure)
    terminal.document(
        {
            "version": 1,
            "experiment": experiment.name,
            "title": experiment.title,
            "source": experiment.source,
            "seed": args.seed,
            "quick": args.quick,
            "columns": experiment.columns,
            "rows": rows,
            **({"conclusion": sentences} if experiment.conclude else {}),
            "files": [str(table), str(figure)],
        }
    )
    _print_summaries(experiment, rows, terminal)
    for sentence in sentences:
        terminal.print(escape(sentence))
    terminal.print(f"Wrote {escape(str(table))} and {escape(str(figure))}")
    return 0


def _rows(experiment: Experiment, args: argparse.Namespace, report: Report) -> list[Row]:
    if not is_on_spark(args):
        return experiment.run(seed=args.seed, quick=args.quick, report=report)
    report(0.0, "starting Spark")
    with trials_on_spark(args.master) as on_spark, trials_run_by(on_spark):
        return experiment.run(seed=args.seed, quick=args.quick, report=report)


def _rows_of_sites(
    experiment: Experiment, args: argparse.Namespace, terminal: Terminal, report: Report
) -> list[Row]:
    """Minutes of real time: without a bar every stage is a line, and a signal ends the sites in order."""
    require_spark(field="NAME")
    if is_on_spark(args):
        terminal.note(f"{experiment.name} starts Spark sites of its own; --on spark changes nothing")

    def tell(done: float, what: str) -> None:
        report(done, what)
        if not terminal.err.is_terminal:
            terminal.note(f"{done:4.0%} {what}")

    with stop_signals():
        return experiment.run(seed=args.seed, quick=args.quick, report=tell)


def _list(known: Collection[Experiment], terminal: Terminal) -> None:
    fields = ("name", "title", "source")
    terminal.document(
        {"version": 1, "experiments": [{key: getattr(each, key) for key in fields} for each in known]}
    )
    table = Table(box=None, header_style="bold")
    for key in fields:
        table.add_column(key)
    for each in known:
        table.add_row(*(escape(getattr(each, key)) for key in fields))
    terminal.print(table)


def _print_summaries(experiment: Experiment, rows: Sequence[Row], terminal: Terminal) -> None:
    terminal.print(Text(f"{experiment.title}\n{experiment.source}", style="bold"))
    terminal.print(Text(experiment.setting))
    for summary in experiment.summaries:
        terminal.print()
        terminal.print(result_table(summarise(summary, rows)))
    terminal.print()


def csv_text(experiment: Experiment, rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(experiment.columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _save(experiment: Experiment, rows: Sequence[Row], path: Path) -> None:
    try:
        # No date or version inside: the same rows give the same bytes.
        experiment.draw(rows).savefig(path, dpi=150, metadata={"Software": None})
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=path) from None
