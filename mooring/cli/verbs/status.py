"""`mooring status`: whether a project runs, and how it is doing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.markup import escape

from mooring.cli.input.parsing import Parser, add_project
from mooring.cli.output.live_view import run_view
from mooring.cli.output.terminal import Terminal
from mooring.cli.output.update_table import update_table
from mooring.quantity import factor_words
from mooring.spark.engine.snapshot import snapshot_from_json
from mooring.spark.runs.found_run import FoundRun, find_run
from mooring.spark.runs.system_clock import SystemClock

DESCRIPTION = "Shows the state of a running pipeline, or its last known state."
IN_TROUBLE = 4
"""Exit code while something is in trouble, as at the end of a run."""


def add_options(parser: Parser) -> None:
    add_project(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    found = find_run(args.project, SystemClock())
    document = found.document()
    status, left = document["last"], document["left_sites"]
    terminal.document(document)
    _show_where(terminal, found, started=status is not None)
    if status is not None:
        terminal.print(_view(status))
        if (update := status.get("update")) is not None:
            terminal.print(update_table(update))
        if found.runs and (under_way := status.get("list")) and "fragment" in under_way:
            terminal.print(escape(_list_line(under_way)))
        if found.runs and (proposal := status.get("proposal")) and proposal["moves"]:
            what = ", ".join(f"{move['fragment']} to {move['to']}" for move in proposal["moves"])
            terminal.print(
                f"proposed: {escape(what)}, headroom {factor_words(proposal['headroom'])} -> "
                f"{factor_words(proposal['moves'][-1]['headroom'])}; see `mooring moves`"
            )
        if found.runs and (adapting := status.get("adapting")):
            for line in adapting_lines(adapting):
                terminal.print(escape(line))
    for name, of in ((status or {}).get("partitions") or {}).items():
        if of["count"] != of["chosen"]:
            terminal.print(
                escape(
                    f"{name} keeps the {of['count']} shuffle partitions of its checkpoint, not {of['chosen']}"
                )
            )
    if found.runs and status is not None and status.get("edit"):
        terminal.print(escape(str(status["edit"])))
    for site, by in left.items():
        asked = f" ({by})" if by else ""
        terminal.print(escape(f"{site} is kept empty until `mooring moves --return {site}`{asked}"))
    # A site that was emptied on request may be down: nothing runs there.
    troubles = {what for what in (status or {}).get("troubles", ()) if what.removeprefix("site ") not in left}
    return IN_TROUBLE if found.runs and troubles else 0


def _view(status: Mapping[str, Any]) -> Group:
    where = "`mooring tables` lists where the data is stored"
    return run_view(snapshot_from_json(status), status.get("headroom"), where)


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


def _show_where(terminal: Terminal, found: FoundRun, *, started: bool) -> None:
    if not found.runs:
        terminal.print("does not run" + ("; its last state:" if started else ""))
        return
    where = f"runs as process {found.pid}"
    if found.elsewhere is not None:
        where = f"runs on another machine: {found.elsewhere}"
    terminal.print(escape(where + ("" if started else ", still starting")))
    if (page := found.page) is not None:
        terminal.print_whole(f"page: {page}")
    if found.silent_s > 0.0:
        terminal.note(
            f"it has not renewed its lease for {found.silent_s:.1f} s; if it has ended, `mooring run` "
            "takes over"
        )


_MOST_ENTRIES = 5


def adapting_lines(adapting: Mapping[str, Any]) -> list[str]:
    """Of a status file: who decides about moves, why nothing is moved, and what became of earlier moves.

    >>> adapting_lines({"decider": "headroom", "act": "apply", "ordered": [], "ledger": [],
    ...                 "why": "what changed last has to show first, for 40 s more",
    ...                 "statistics": "as the problem states them"})
    ['adapting by headroom (apply): nothing is moved: what changed last has to show first, for 40 s more']
    """
    who = f"adapting by {adapting['decider']} ({adapting['act']})"
    if ordered := adapting["ordered"]:
        lines = [f"{who}: moving {', '.join(ordered)}: {adapting['why']}"]
    else:
        lines = [f"{who}: nothing is moved: {adapting['why']}"]
    if adapting["statistics"] != "as the problem states them":
        lines.append(f"statistics: {adapting['statistics']}")
    for site, cores in adapting.get("estimated_capacity_cores", {}).items():
        lines.append(f"{site} counts with {cores:.2f} cores (estimated from its throughput when it was full)")
    for entry in adapting["ledger"][-_MOST_ENTRIES:]:
        what = ", ".join(f"{move['fragment']} to {move['to']}" for move in entry["moves"])
        lines.append(f"moved {what} ({entry['decider']}): {entry['verdict']}")
    return lines
