"""The simulator's documents and docstrings do what they say: every Python example in them runs."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["control-plane-harness.md", "traces.md"]
WITH_EXAMPLES = [
    *(f"mooring.simulator.traces.{name}" for name in ("read", "counts", "packets", "substreams", "rates")),
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_examples_of_a_document_run(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / name).read_text(), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), name, "exec"), {"__name__": name})  # noqa: S102


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_docstring_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
