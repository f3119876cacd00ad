"""The diagrams of a proposal's stages are those of the tables that the code runs by."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from mooring.coordination.mover import TRANSITIONS as AT_MOVER
from mooring.coordination.proposer import TRANSITIONS as AT_PROPOSER

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing-protocols.md"
BEGIN, END = "<!-- drawn by tests/coordination/test_diagrams.py -->\n", "<!-- end of the drawing -->"


def drawn(title: str, rows: list[tuple[Enum, type, Enum]]) -> str:
    """A Mermaid diagram; events with the same effect share an arrow, and what changes nothing has none."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for before, event, after in rows:
        if before is not after:
            arrows.setdefault((before.value, after.value), []).append(event.__name__)
    lines = [f"    {a} --> {b}: {', '.join(events)}" for (a, b), events in arrows.items()]
    return "\n".join(["```mermaid", "---", f"title: {title}", "---", "stateDiagram-v2", *lines, "```", ""])


def diagrams() -> str:
    proposer = [(before, event, after) for (before, event), after in AT_PROPOSER.items()]
    mover = [
        (before, event, after)
        for (before, event), afters in AT_MOVER.items()
        for after in sorted(afters, key=lambda stage: stage.value)
    ]
    return drawn("at its proposer", list(proposer)) + "\n" + drawn("at the mover", list(mover))


def test_the_document_shows_the_tables() -> None:
    text = DOCUMENT.read_text()
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert shown == diagrams(), f"put this between the marks:\n{diagrams()}"
