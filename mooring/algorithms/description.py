"""Descriptions and parameters of policies, read from their source without loading it.

A policy's module brings numpy, sparse matrices and compiled loops with it; a list of policies should not load
them. The meaning of a parameter stands in the docstring below its field, which Python does not keep, so its
source has to be read anyway; the other things said of it stand there too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

from mooring.algorithms.catalogue import ALGORITHMS, module_of


@dataclass(frozen=True)
class ParameterDescription:
    """One parameter, as `--set NAME=VALUE` takes it."""

    name: str
    type: str
    default: object
    meaning: str


@dataclass(frozen=True)
class PolicyDescription:
    name: str
    summary: str
    parameters: tuple[ParameterDescription, ...]


def describe_policy(name: str) -> PolicyDescription:
    """Of the policy of that name: the first paragraph of its module, and the fields of its class."""
    module, kind = module_of(ALGORITHMS[name].policy)
    tree = ast.parse(_source(module))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind)
    summary = (ast.get_docstring(tree) or "").partition("\n\n")[0]
    return PolicyDescription(name, _on_one_line(summary), tuple(_parameters(body)))


def _parameters(body: ast.ClassDef) -> Iterator[ParameterDescription]:
    for node, below in pairwise(body.body):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as default):
                type_ = ast.unparse(annotation)
                if not type_.startswith("ClassVar"):
                    yield ParameterDescription(name, type_, ast.literal_eval(default), _text(below))


def _text(node: ast.stmt) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return _on_one_line(text)
    return ""


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _source(module: str) -> str:
    """As it was installed. Compiled loops are cached beside their source, so it is always there."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        return file.read()
