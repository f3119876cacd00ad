"""`mooring doctor`: what a project has stored, looked at while it does not run."""

from __future__ import annotations

import argparse

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from mooring.cli.input.parsing import Parser, add_project
from mooring.cli.output.terminal import Terminal
from mooring.doctor.examination import Examination, examine
from mooring.errors import EngineError

DESCRIPTION = (
    "Examines the storage of a project that does not run: what is sound, what is lost, and what to do. "
    "Changes nothing."
)
_STYLES = {"sound": "green", "pending": "yellow", "lost": "red bold"}


def add_options(parser: Parser) -> None:
    add_project(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    seen = examine(args.project)
    terminal.document(seen.as_json())
    terminal.print(_table(seen))
    lost = sum(finding.state == "lost" for finding in seen.findings)
    terminal.print(f"{lost} of these are lost" if lost else "nothing is lost")
    return 0 if seen.is_sound else EngineError.exit_code


def _table(seen: Examination) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("part", no_wrap=True)
    table.add_column("name", overflow="fold")
    table.add_column("", no_wrap=True)
    table.add_column("found", overflow="fold")
    table.add_column("to do", overflow="fold")
    for finding in seen.findings:
        state = Text(finding.state, style=_STYLES[finding.state])
        cells = (finding.what, finding.remedy or "")
        table.add_row(finding.part, Text(finding.name), state, *map(Text, cells))
    return table
