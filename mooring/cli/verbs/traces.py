"""`mooring traces`: trace files to the rate history that problem files read, and its moments."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mooring.cli.input.files import make_folder, write_text
from mooring.cli.input.on_spark import add_on_spark, is_on_spark
from mooring.cli.input.parsing import Parser, names, positive_count, seconds
from mooring.cli.output.terminal import Terminal, as_json_text
from mooring.errors import InputError
from mooring.progress import Report
from mooring.quantity import decimal
from mooring.traces.rates import write_rates
from mooring.traces.summary import TraceRequest, TraceSummary, holds_counts, summarise_traces

ROWS_SHOWN = 20


DESCRIPTION = (
    "Counts the rates of traces. --substreams cuts each trace by address. Writes history.csv, for `rates` "
    "in problem files, and statistics.json with moments and correlations."
)


def add_options(parser: Parser) -> None:
    parser.add_argument("traces", metavar="TRACE", nargs="+", help="trace file, or a shipped extract's name")
    parser.add_argument(
        "--bin-s",
        type=seconds,
        metavar="S",
        help="length of a bin of the rates (default 1 s; for counts 60 s)",
    )
    parser.add_argument(
        "--substreams",
        type=positive_count,
        metavar="N",
        default=1,
        help="cut each trace into N sub-streams by address",
    )
    parser.add_argument("--streams", type=names, metavar="A,B,...", default=(), help="names of the streams")
    parser.add_argument(
        "--counted-s",
        type=positive_count,
        metavar="S",
        default=60,
        help="length of a bin in files of counts (CSV; default 60 s)",
    )
    add_on_spark(parser)
    parser.add_argument(
        "--output", type=Path, metavar="DIR", default=Path("out"), help="folder for the files (default out)"
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    default_s = float(args.counted_s) if holds_counts(args.traces[0]) else 1.0
    request = TraceRequest(
        traces=tuple(args.traces),
        bin_s=args.bin_s or default_s,
        substreams=args.substreams,
        seed=args.seed,
        counted_s=args.counted_s,
        names=args.streams,
    )
    make_folder(args.output)
    with terminal.progress("counting") as report:
        summary = _summary(request, args, report)
    files = _written(summary, args.output)
    document = {"version": 1, "traces": args.traces, "seed": args.seed, **summary.as_data()}
    terminal.document({**document, "files": [str(file) for file in files]})
    terminal.print(_moments(summary))
    terminal.print("Wrote " + " and ".join(escape(str(file)) for file in files))
    return 0


def _summary(request: TraceRequest, args: argparse.Namespace, report: Report) -> TraceSummary:
    if not is_on_spark(args):
        return summarise_traces(request)
    report(0.0, "starting Spark")
    from mooring.spark.jobs.batch_session import DEFAULT_MASTER, batch_session
    from mooring.spark.jobs.trace_jobs import summarise_on_spark

    with batch_session(args.master or DEFAULT_MASTER) as session:
        return summarise_on_spark(session, request, report)


def _written(summary: TraceSummary, folder: Path) -> tuple[Path, Path]:
    history, statistics = folder / "history.csv", folder / "statistics.json"
    try:
        write_rates(history, summary.table)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=history) from None
    write_text(statistics, as_json_text({"version": 1, **summary.as_data()}))
    return history, statistics


def _moments(summary: TraceSummary) -> Table:
    sums = summary.sums
    caption = f"{sums.bins} bins of {sums.bin_s:g} s"
    if len(sums.streams) > ROWS_SHOWN:
        caption += f"; {len(sums.streams) - ROWS_SHOWN} more streams in the files"
    table = Table(box=None, header_style="bold", caption=caption, caption_justify="left")
    table.add_column("stream")
    for heading in ("mean /s", "deviation", "peak", "correlation with the others"):
        table.add_column(heading, justify="right")
    others = max(len(sums.streams) - 1, 1)
    correlation = (sums.correlation().sum(axis=1) - 1) / others
    rows = zip(sums.streams, sums.mean(), sums.deviation(), sums.peak(), correlation, strict=True)
    for name, mean, deviation, peak, shared in list(rows)[:ROWS_SHOWN]:
        cells = [decimal(value, 4) for value in (mean, deviation, peak)]
        table.add_row(Text(name), *cells, f"{shared:.2f}" if len(sums.streams) > 1 else "")
    return table
