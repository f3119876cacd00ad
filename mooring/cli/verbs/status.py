"""`mooring status`: whether a project runs, and how it is doing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from mooring.cli.input.parsing import Parser, add_project
from mooring.cli.output.live_view import run_view
from mooring.cli.output.terminal import Terminal
from mooring.spark.pipeline.project import work_folder_of
from mooring.spark.running.snapshot import snapshot_from_json
from mooring.spark.runs.run_files import RunFiles

DESCRIPTION = "Shows how a running pipeline is doing."


def add_options(parser: Parser) -> None:
    add_project(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    files = RunFiles(work_folder_of(args.project))
    pid, status = files.running_pid(), files.read_status()
    terminal.document({"version": 1, "running": pid is not None, "pid": pid, "last": status})
    if pid is None:
        terminal.print("does not run" + ("" if status is None else "; it last looked like this:"))
    else:
        terminal.print(f"runs as process {pid}" + ("" if status is not None else ", still starting"))
    if status is not None:
        terminal.print(run_view(snapshot_from_json(status), {}))
        if pid is not None and (under_way := status.get("list")) and "fragment" in under_way:
            terminal.print(escape(_list_line(under_way)))
        if pid is not None and (proposal := status.get("proposal")) and proposal["moves"]:
            what = ", ".join(f"{move['fragment']} to {move['to']}" for move in proposal["moves"])
            terminal.print(
                f"proposed: {escape(what)}, headroom x {proposal['headroom']:.2f} -> "
                f"x {proposal['moves'][-1]['headroom']:.2f}; see `mooring moves`"
            )
    return 0


def _list_line(under_way: Mapping[str, Any]) -> str:
    """
    >>> move = {"fragment": "totals", "from": "oslo", "to": "berlin", "reached": "fenced"}
    >>> _list_line({**move, "step": 2, "of": 3, "asked_by": "ann@desk, process 7"})
    'move 2 of 3 is under way: totals, oslo -> berlin: fenced (ann@desk, process 7)'
    """
    step, of, by = under_way["step"], under_way["of"], under_way.get("asked_by")
    what = "is being taken back" if under_way.get("aborting") else "is under way"
    line = f"move {step} of {of} {what}: {under_way['fragment']}, {under_way['from']} -> {under_way['to']}"
    return f"{line}: {under_way['reached']}" + (f" ({by})" if by else "")
