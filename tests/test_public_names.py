"""The package's names are loaded when they are first used, and are those that type checkers see."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import mooring

ASSUMED = {
    alias.name: node.module
    for branch in ast.parse(Path(str(mooring.__file__)).read_text()).body
    if isinstance(branch, ast.If)
    for node in branch.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
"""What the package tells type checkers: name to module."""


@pytest.mark.parametrize("name", mooring.__all__)
def test_every_public_name_is_there_and_is_what_type_checkers_take_it_for(name: str) -> None:
    assert name in dir(mooring)
    home = importlib.import_module(ASSUMED.get(name) or "mooring.errors")
    assert getattr(mooring, name) is getattr(home, name)


def test_what_is_told_to_type_checkers_is_public() -> None:
    assert set(ASSUMED) <= set(mooring.__all__)


def test_an_unknown_name_is_an_ordinary_mistake() -> None:
    with pytest.raises(AttributeError, match=r"'mooring' has no attribute 'paln'"):
        mooring.paln  # type: ignore[attr-defined]  # noqa: B018
