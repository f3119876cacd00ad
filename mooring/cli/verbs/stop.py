"""`mooring stop`: end a running pipeline cleanly; running it again resumes where it stopped."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.markup import escape

from mooring.cli.input.parsing import Parser, add_project
from mooring.cli.output.terminal import Terminal
from mooring.spark.runs.found_run import find_run
from mooring.spark.runs.mailbox import this_asker
from mooring.spark.runs.system_clock import SystemClock

DESCRIPTION = "Ends a running pipeline cleanly."
_SAY_AGAIN_S = 10.0


def add_options(parser: Parser) -> None:
    add_project(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    found = find_run(args.project, SystemClock())
    stopped = found.stop(this_asker(" ".join(["mooring", *args.words])), waiting_line(terminal))
    terminal.document({"version": 1, "stopped": stopped})
    terminal.print("stopped" if stopped else "does not run")
    return 0


def waiting_line(terminal: Terminal) -> Callable[[Mapping[str, Any]], None]:
    """Says what the run waits for: at once, whenever that changes, and every few seconds."""
    said: tuple[object, ...] = ()

    def say(under_way: Mapping[str, Any]) -> None:
        nonlocal said
        seconds = max(0.0, time.time() - under_way["since_s"])
        now = (under_way.get("fragment"), under_way.get("reached"), int(seconds // _SAY_AGAIN_S))
        if "fragment" in under_way and now != said:
            said = now
            terminal.print(escape(described(under_way, seconds)))

    return say


def described(under_way: Mapping[str, Any], seconds: float) -> str:
    """
    >>> described({"fragment": "counts", "to": "oslo", "reached": "stopped", "step": 1, "of": 3}, 12.3)
    'waiting for the move of counts to oslo (stopped, 12 s; move 1 of 3)'
    """
    return (
        f"waiting for the move of {under_way['fragment']} to {under_way['to']} "
        f"({under_way['reached']}, {seconds:.0f} s; move {under_way['step']} of {under_way['of']})"
    )
