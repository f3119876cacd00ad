"""`mooring policies`: every policy with its parameters, as `--set` takes them."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from mooring.cli.input.parsing import Parser
from mooring.cli.output.terminal import Terminal
from mooring.policies.catalogue import POLICIES

DESCRIPTION = "Lists every policy and the parameters that `plan --policy NAME --set PARAMETER=VALUE` takes."


def add_options(parser: Parser) -> None:
    """None of its own."""


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    described = [describe(name, policy) for name, policy in POLICIES.items()]
    terminal.document({"version": 1, "policies": described})
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    for heading in ("policy", "what it does", "parameters (defaults)"):
        table.add_column(heading, overflow="fold")
    for each in described:
        parameters = "\n".join(f"{p['name']}={_shown(p['default'])}" for p in each["parameters"])
        table.add_row(Text(each["name"], style="bold"), Text(each["summary"]), Text(parameters))
    terminal.print(table)
    return 0


def describe(name: str, policy: type) -> dict[str, Any]:
    documentation = field_documentation(policy)
    parameters = [
        {
            "name": field.name,
            "type": str(field.type),
            "default": None if field.default is dataclasses.MISSING else field.default,
            "meaning": documentation.get(field.name, ""),
        }
        for field in dataclasses.fields(policy)
    ]
    return {"name": name, "summary": summary_of(policy), "parameters": parameters}


def summary_of(policy: type) -> str:
    """What the module of a policy says it does, in its first paragraph."""
    module = inspect.getmodule(policy)
    return " ".join((inspect.getdoc(module) or "").partition("\n\n")[0].split())


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def field_documentation(policy: type) -> dict[str, str]:
    """The docstrings below the fields of a dataclass, which Python itself does not keep."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(policy))).body[0]
    except (OSError, TypeError):  # no source at hand: the parameters are listed without their meaning
        return {}
    assert isinstance(body, ast.ClassDef)
    result: dict[str, str] = {}
    for field, text in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(text):
            result[field.target.id] = " ".join(text.value.value.split())  # type: ignore[attr-defined]
    return result


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
