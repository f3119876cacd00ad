"""The example in the document on network-aware placement runs."""

from __future__ import annotations

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "network-aware.md"


def test_the_example_runs_and_its_claim_holds() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), {})  # noqa: S102
