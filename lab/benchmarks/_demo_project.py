"""The example's pipeline as a project of its own, with its packets and the truth about them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

EXAMPLE = Path(__file__).parents[2] / "examples" / "network_monitoring"
sys.path.insert(0, str(EXAMPLE))

from burst import FLOOD  # noqa: E402
from compare import Verdict, compare, counted_rows, verdict_on  # noqa: E402
from feed import Feeder  # noqa: E402
from truth import SITES, Row, Rows, Traffic, demo_traffic, expected_rows  # noqa: E402

FRAGMENTS = 10
TRACE_S = 600
"""The length of the packets' trace."""
_LANDING_LINE = 'LANDING = Path(__file__).parent.parent / "landing"'

__all__ = [
    "FRAGMENTS",
    "SITES",
    "Feeder",
    "Row",
    "Rows",
    "Verdict",
    "compare",
    "copy_example",
    "counted_rows",
    "expected_rows",
    "flooded_traffic",
    "traffic",
    "verdict_on",
]


def copy_example(
    folder: Path, landing: Path, storage: Path, at_sites: Mapping[str, Path] = MappingProxyType({})
) -> None:
    """A checkout of the example that reads packets and keeps its storage where it is told; `at_sites` have it
    under another path.

    Several checkouts of one pipeline read the same packets by the same path, as hosts with one mount do:
    Spark knows a file that it has read by its path.
    """
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".mooring", "landing"))
    code = folder / "transformations" / "packets.py"
    text = code.read_text()
    assert _LANDING_LINE in text, f"{code} names its folder in another way; expected {_LANDING_LINE}"
    code.write_text(text.replace(_LANDING_LINE, f"LANDING = Path({str(landing)!r})"))
    with (folder / "mooring.yml").open("a") as settings:
        paths = {site: str(path) for site, path in at_sites.items()}
        settings.write(f"storage: {json.dumps({'root': str(storage), 'sites': paths})}\n")


def traffic(minutes: float) -> Traffic:
    """The trace over and over, each time ten minutes later."""
    once = demo_traffic(min(60 * minutes, TRACE_S))
    times = max(1, round(60 * minutes / TRACE_S))
    later_us = np.repeat(np.arange(times) * TRACE_S * 1_000_000, once.at_us.size)
    columns = {name: np.tile(column, times) for name, column in vars(once).items()}
    return Traffic(**{**columns, "at_us": columns["at_us"] + later_us})


def flooded_traffic() -> Traffic:
    """The demo's: ten minutes of the trace, with a flood at one site in their midst."""
    return demo_traffic(TRACE_S, burst=FLOOD)
