"""`mooring import`: a problem from the event logs of streaming queries that already run somewhere."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from mooring.cli.input.files import write_text
from mooring.cli.input.parsing import Parser, number, settings
from mooring.cli.output.terminal import Terminal, as_json_text
from mooring.errors import InputError
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.write import write_problem
from mooring.progress import Report
from mooring.quantity import decimal
from mooring.spark.event_logs.event_log import EventLogReader, LoggedApplication, SharedSamples
from mooring.spark.event_logs.imported_problem import ImportedProblem, import_applications
from mooring.spark.event_logs.lines import LineCounts, log_groups, read_lines

DESCRIPTION = (
    "Reads Spark event logs (files, folders, rolled logs; plain, .gz, .zstd) or progress records (JSON "
    "lines) of Structured Streaming queries. Writes a problem file with their rates over time, costs and "
    "errors, and a plan file with the sites that they ran at."
)


def add_options(parser: Parser) -> None:
    parser.add_argument("logs", metavar="LOG", type=Path, nargs="+", help="event log, or a folder of them")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", default=Path("problem.yml"), help="problem file (problem.yml)"
    )
    parser.add_argument(
        "--site",
        metavar="NAME=CORES",
        action="append",
        default=[],
        help="capacity of a site whose logged value is wrong or missing, repeatable",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    capacities = {name: _cores(name, text) for name, text in settings(args.site).items()}
    with terminal.progress("reading event logs") as report:
        applications, counts = read_logs(args.logs, report)
    imported = import_applications(applications, capacities)
    if counts.cut_off:
        imported.notes.append(
            f"{counts.cut_off} files end in the middle of a record; the records before it are used"
        )
    if counts.too_long:
        imported.notes.append(f"{counts.too_long} lines were too long and skipped")
    plan_file = write_imported(imported, args.out)
    terminal.document(_document(imported, args.out, plan_file))
    terminal.print(_table(imported))
    for note in imported.notes:
        terminal.print(f"[yellow]note:[/yellow] {escape(note)}")
    out = escape(str(args.out))
    terminal.print(f"Wrote {out} and {escape(str(plan_file))}. Next:")
    terminal.print(f"  mooring headroom {out} --placement {escape(str(plan_file))}")
    terminal.print(f"  mooring plan {out} --from {escape(str(plan_file))} --max-moves 3")
    return 0


def read_logs(paths: list[Path], report: Report) -> tuple[list[LoggedApplication], LineCounts]:
    """Every application in the logs, read line by line."""
    groups = [group for path in paths for group in log_groups(path)]
    total = max(1, sum(file.stat().st_size for group in groups for file in group))
    counts, applications, before = LineCounts(), [], 0
    samples = SharedSamples()
    for group in groups:
        reader = EventLogReader(samples)
        for file in group:
            report(min(1.0, before / total), f"reading {file.name}")
            for at, line in enumerate(read_lines(file, counts)):
                reader.take(line)
                if at % 5000 == 0:
                    report(min(1.0, counts.bytes_read / total), f"reading {file.name}")
            before += file.stat().st_size
        applications.append(reader.application)
    return applications, counts


def write_imported(imported: ImportedProblem, out: Path) -> Path:
    """The problem file, its rates beside it, and the placement of now as a plan; returns the plan's path."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_problem(imported.problem, out)
        text = out.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", file=out, remedy="choose another --out"
        ) from None
    if out.suffix.lower() != ".json":
        head = "".join(f"# {note}\n" for note in imported.notes)
        write_text(out, head + text)
    plan_file = out.with_name(f"{out.stem}.PLAN.json")
    document = {
        "version": 1,
        "problem": fingerprint(imported.problem),
        "policy": "imported",
        "placement": imported.placement,
    }
    write_text(plan_file, as_json_text(document))
    return plan_file


def _cores(name: str, text: str) -> float:
    try:
        value = number(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(str(error), field=f"--site {name}") from None
    if value <= 0:
        raise InputError(f"found {text!r}, expected cores above zero", field=f"--site {name}")
    return value


def _document(imported: ImportedProblem, out: Path, plan_file: Path) -> dict[str, object]:
    return {
        "version": 1,
        "problem": fingerprint(imported.problem),
        "file": str(out),
        "plan": str(plan_file),
        "sites": {site.name: site.capacity for site in imported.problem.sites},
        "queries": {
            e.query: {
                "site": e.site,
                "rate": e.rate,
                "cost_us": e.cost_us,
                "fixed_cores": e.fixed_cores,
                "selectivity": e.selectivity,
                "load_cores": e.load_cores,
                "error": e.error,
            }
            for e in imported.estimates
        },
        "notes": imported.notes,
    }


def _table(imported: ImportedProblem) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("query", "ran at", "rows/s", "us per row", "fixed cores", "load", "error"):
        table.add_column(column, justify="left" if column in ("query", "ran at") else "right")
    for e in imported.estimates:
        table.add_row(
            escape(e.query),
            escape(e.site),
            f"{e.rate:.1f}",
            decimal(e.cost_us),
            decimal(e.fixed_cores),
            decimal(e.load_cores),
            f"{e.error:.0%}",
        )
    return table
