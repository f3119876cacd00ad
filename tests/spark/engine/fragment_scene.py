"""A small pipeline whose fragments are started one by one, and what its tests look at."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.spark.engine.fragment_query import (
    RunningFragment,
)
from mooring.spark.pipeline.layout import Layout
from mooring.spark.runs.results import read_stored

if TYPE_CHECKING:
    pass

LayOut = Callable[[Path], Layout]
Start = Callable[..., RunningFragment]

PATIENCE_S = 150

NUMBERS = """
from pyspark import pipelines as dp

@dp.table
def numbers():
    return spark.readStream.schema("n long, at timestamp").json("INPUT")
"""
SETTINGS = """
sites: {here: {capacity: 2}}
streams: {numbers: {site: here, rate: 100}}
trigger_s: 0.2
"""

READ = "tables: {numbers: {keep: read}, both: {keep: read}}\n"

TWO_FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

dp.create_streaming_table("both")

@dp.append_flow(target="both")
def evens():
    return spark.readStream.table("numbers").filter("n % 2 = 0")

@dp.append_flow(target="both")
def odds():
    return spark.readStream.table("numbers").filter("n % 2 = 1")

@dp.table
def doubled():
    return spark.readStream.table("both").selectExpr("n * 2 AS n")

@dp.table
def late():
    return spark.readStream.table("both").selectExpr("n + 1000000 AS n")
"""

READER = """
from pyspark import pipelines as dp

@dp.table
def kept():
    return spark.readStream.table("numbers").filter("n >= 0")
"""


def wait_until(happened: Callable[[], bool], *running: RunningFragment) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        for fragment in running:
            assert fragment.query.exception() is None, fragment.query.exception()
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def feed(folder: Path, name: str, numbers: range) -> None:
    lines = [json.dumps({"n": n, "at": f"2020-01-01T00:00:{n % 60:02d}Z"}) for n in numbers]
    hidden = folder / "input" / f".{name}"
    hidden.write_text("\n".join(lines))
    hidden.rename(folder / "input" / f"{name}.json")


def numbers_of(layout: Layout, dataset: str) -> list[int]:
    table = read_stored(layout.root, dataset)
    return sorted(table["n"].to_pylist()) if table.num_rows else []


def holds(layout: Layout, dataset: str, numbers: list[int]) -> bool:
    return numbers_of(layout, dataset) == numbers
