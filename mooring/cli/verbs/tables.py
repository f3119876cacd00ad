"""`mooring tables`: where every dataset of a pipeline lies, how many rows it has, and how to read them."""

from __future__ import annotations

import argparse

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mooring.cli.input.parsing import Parser, add_project
from mooring.cli.output.terminal import Terminal
from mooring.errors import InputError
from mooring.model.problem.reading.fields import nearest
from mooring.quantity import quantity
from mooring.spark.runs.found_tables import find_tables
from mooring.spark.tables.stored_tables import StoredTable

DESCRIPTION = (
    "Lists where every dataset of a pipeline is stored, how many rows are committed, and how to read "
    "exactly those. Works whether the pipeline runs or not."
)

_IMPORTS = "import json; from pathlib import Path"


def add_options(parser: Parser) -> None:
    add_project(parser)
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="NAME",
        help="dataset to list, repeatable (default: all)",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    tables = _chosen(find_tables(args.project), args.table)
    terminal.document({"version": 1, "tables": [table.as_json() for table in tables]})
    if not tables:
        terminal.print("nothing is stored: the pipeline has not run yet")
        return 0
    terminal.print(_shown(tables))
    for table in tables:
        if table.note:
            terminal.print(escape(f"{table.name}: {table.note}"))
    if len(readable := [table for table in tables if table.read]) and not args.table:
        readable = readable[:1]
    for table in readable:
        terminal.print(f"\n[bold]{escape(table.name)}[/bold] in Python:")
        terminal.print_whole(_IMPORTS)
        for tool, line in table.read.items():
            terminal.print_whole(line if tool == "spark" else f"import {tool}; {line}")
    return 0


def _chosen(tables: list[StoredTable], names: list[str]) -> list[StoredTable]:
    known = [table.name for table in tables]
    for name in names:
        if name not in known:
            closest = nearest(name, known)
            raise InputError(
                f"found {name!r}, expected a dataset that is stored",
                field="--table",
                remedy=f"did you mean {closest!r}?" if closest else f"there are {', '.join(known) or 'none'}",
            )
    return [table for table in tables if not names or table.name in names]


def _shown(tables: list[StoredTable]) -> Table:
    shown = Table(box=SIMPLE_HEAD, header_style="bold")
    for name in ("dataset", "kind", "site"):
        shown.add_column(name, overflow="fold")
    for name in ("rows", "size"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("format", no_wrap=True)
    shown.add_column("path", overflow="fold")
    for table in tables:
        rows = "" if table.rows is None else f"{table.rows:,}"
        size = "" if table.bytes is None else quantity(table.bytes, "B")
        cells = (table.name, table.kind, table.site or "", rows, size, table.format, table.path or "")
        shown.add_row(*map(Text, cells))
    return shown
