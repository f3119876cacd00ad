"""`mooring logs`: the last lines of a project's logs, and what comes to them."""

from __future__ import annotations

import argparse
import time

from rich.markup import escape

from mooring.cli.input.parsing import Parser, add_project, positive_count
from mooring.cli.output.terminal import Terminal
from mooring.errors import InputError
from mooring.spark.pipeline.project import work_folder_of
from mooring.spark.runs.found_run import find_run
from mooring.spark.runs.run_logs import Followed, RunLog, find_logs
from mooring.spark.runs.system_clock import SystemClock

DESCRIPTION = (
    "Prints the last lines of a project's logs on this machine: of the run in the background, its embedded "
    "sites and its agents."
)
_LOOK_S = 0.2
_FIND_S = 2.0


def add_options(parser: Parser) -> None:
    add_project(parser)
    parser.add_argument("--site", metavar="NAME", help="only the logs of this site and its agent")
    parser.add_argument(
        "--lines", metavar="N", type=positive_count, default=20, help="lines of each log (default 20)"
    )
    parser.add_argument(
        "--follow", action="store_true", help="go on with new lines until Ctrl-C or the end of the run"
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.follow and terminal.as_json:
        raise InputError(
            "found --follow with --json, which prints one document",
            field="--follow",
            remedy="drop one of the two",
        )
    folder = work_folder_of(args.project)
    found = _chosen(find_logs(folder), args.site, str(folder))
    followed = [Followed(log) for log in found] if args.follow else []
    tails = {log.name: log.tail(args.lines) for log in found}
    terminal.document({"version": 1, "logs": [{**log.as_json(), "lines": tails[log.name]} for log in found]})
    for log in found:
        terminal.print(f"[bold]{escape(log.name)}[/bold]  [dim]{escape(str(log.file))}[/dim]")
        for line in tails[log.name]:
            terminal.print_whole(line)
    if args.follow:
        _follow(args, terminal, followed)
    return 0


def _chosen(logs: list[RunLog], site: str | None, folder: str) -> list[RunLog]:
    chosen = [log for log in logs if site is None or log.site == site]
    if chosen:
        return chosen
    if site is None:
        raise InputError(
            f"found no log in {folder}",
            remedy="a run in the background (`mooring run --detach`) and embedded sites write logs there",
        )
    known = ", ".join(dict.fromkeys(log.site for log in logs if log.site)) or "no site"
    raise InputError(
        f"found no log of the site {site!r} on this machine, found those of: {known}",
        field="--site",
        remedy="the log of an existing endpoint is on its own machine",
    )


def _follow(args: argparse.Namespace, terminal: Terminal, followed: list[Followed]) -> None:
    """New lines of all logs, with the log's name before each where there are several."""
    runs, next_s = True, 0.0
    while runs:
        if (
            time.monotonic() >= next_s
        ):  # whether it runs comes first: what it printed at its end is not missed
            runs, next_s = find_run(args.project, SystemClock()).runs, time.monotonic() + _FIND_S
        for each in followed:
            for line in each.lines():
                terminal.print_whole(f"{each.log.name}: {line}" if len(followed) > 1 else line)
        terminal.out.file.flush()
        if runs:
            time.sleep(_LOOK_S)
    terminal.note("the project does not run: nothing more comes to its logs")
