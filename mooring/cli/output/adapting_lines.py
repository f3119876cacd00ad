"""Who decides about moves in a run, why nothing is done, and what became of what was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_ENTRIES = 5


def adapting_lines(adapting: Mapping[str, Any]) -> list[str]:
    """Of a status file.

    >>> adapting_lines({"decider": "headroom", "act": "apply", "ordered": [], "ledger": [],
    ...                 "why": "what changed last has to show first, for 40 s more",
    ...                 "statistics": "as the problem states them"})
    ['adapting by headroom (apply): nothing is moved: what changed last has to show first, for 40 s more']
    """
    who = f"adapting by {adapting['decider']} ({adapting['act']})"
    if ordered := adapting["ordered"]:
        lines = [f"{who}: moving {', '.join(ordered)}: {adapting['why']}"]
    else:
        lines = [f"{who}: nothing is moved: {adapting['why']}"]
    if adapting["statistics"] != "as the problem states them":
        lines.append(f"statistics: {adapting['statistics']}")
    for site, cores in adapting.get("estimated_capacity_cores", {}).items():
        lines.append(
            f"{site} counts with {cores:.2f} cores (estimated): it got no more done when it was full"
        )
    for entry in adapting["ledger"][-_MOST_ENTRIES:]:
        what = ", ".join(f"{move['fragment']} to {move['to']}" for move in entry["moves"])
        lines.append(f"moved {what} ({entry['decider']}): {entry['verdict']}")
    return lines
