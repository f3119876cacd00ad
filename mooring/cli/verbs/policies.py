"""`mooring policies`: every policy with its parameters, as `--set` takes them."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from mooring.algorithms.catalogue import POLICIES
from mooring.algorithms.description import describe_policy
from mooring.cli.input.parsing import Parser
from mooring.cli.output.terminal import Terminal

DESCRIPTION = "Lists every policy and the parameters that `plan --policy NAME --set PARAMETER=VALUE` takes."


def add_options(parser: Parser) -> None:
    """None of its own."""


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    described = [describe_policy(name) for name in POLICIES]
    terminal.document({"version": 1, "policies": [asdict(each) for each in described]})
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    for heading in ("policy", "description", "parameters (defaults)"):
        table.add_column(heading, overflow="fold")
    for each in described:
        parameters = "\n".join(f"{p.name}={_shown(p.default)}" for p in each.parameters)
        table.add_row(Text(each.name, style="bold"), Text(each.summary), Text(parameters))
    terminal.print(table)
    return 0


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
