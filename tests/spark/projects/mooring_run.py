"""What Mooring makes of a project: its sites at a server that is up, and its tables as `mooring tables` reads
them.
"""

from __future__ import annotations

import json
from pathlib import Path

from mooring.spark.runs.found_tables import find_tables
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from tests.spark.projects.golden import Tables
from tests.spark.projects.rows import as_lines


def on_sites(folder: Path, count: int, endpoint: Endpoint) -> None:
    """Let the project's sites be at one server, which takes them for several."""
    sites = {name: {"capacity": 1, "connect": endpoint.url} for name in "abc"[:count]}
    (folder / "mooring.yml").write_text(json.dumps({"sites": sites}))


def all_rows(folder: Path, endpoint: Endpoint) -> Tables:
    """Of every dataset that is stored, by the very line that `mooring tables` says to read it with."""
    session = open_session(endpoint)
    try:
        found = {}
        for table in find_tables(folder):
            line = table.read.get("spark", "spark.range(0)")
            frame = eval(line, {"spark": session, "json": json, "Path": Path})  # noqa: S307
            prefix = "sink " if table.kind == "sink" else ""
            found[f"{prefix}{table.name}"] = as_lines(frame.toArrow())
        return found
    finally:
        close_session(session)
