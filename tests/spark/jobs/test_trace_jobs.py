"""Traces counted on Spark: the numbers of one process, wherever the files are cut."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.cli.main import main
from mooring.errors import InputError
from mooring.model.problem.problem import Problem
from mooring.spark.jobs.trace_jobs import summarise_on_spark
from mooring.traces.rates import rate_table
from mooring.traces.read import arrival_instants
from mooring.traces.substreams import split
from mooring.traces.summary import TraceRequest, TraceSummary, summarise_traces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def small_splits(batch: SparkSession) -> Iterator[object]:
    """Spark cuts text into splits of 20 kB."""
    batch.conf.set("spark.sql.files.maxPartitionBytes", "20k")
    yield batch
    batch.conf.unset("spark.sql.files.maxPartitionBytes")


@pytest.fixture
def gaps(tmp_path: Path) -> Path:
    """Eight thousand gaps; every hundredth arrival lies on the edge of a bin of one second."""
    path = tmp_path / "gaps.txt"
    gaps_s = np.random.default_rng(1).integers(0, 200, 8000) / 1e4
    gaps_s[99::100] += np.ceil(np.cumsum(gaps_s)[99::100]) - np.cumsum(gaps_s)[99::100]
    path.write_text("".join(f"{gap:.7e}\n" for gap in gaps_s))
    return path


def assert_same(spark: TraceSummary, here: TraceSummary) -> None:
    assert spark.table.streams == here.table.streams
    np.testing.assert_array_equal(spark.table.time_s, here.table.time_s)
    np.testing.assert_array_equal(spark.table.rates, here.table.rates)
    assert spark.as_data() == here.as_data()


def test_the_shipped_extract_is_counted_as_in_one_process(batch_endpoint: str, tmp_path: Path) -> None:
    """Ten sub-streams, through the command line: the same files, which hold the table's correlations and
    which a problem file reads.
    """
    command = ["traces", "bc-paug89-extract", "--substreams", "10", "--seed", "5", "--output"]
    assert main([*command, str(tmp_path / "here")]) == 0
    assert main([*command, str(tmp_path / "spark"), "--on", "spark", "--master", batch_endpoint]) == 0
    for file in ("history.csv", "statistics.json"):
        assert (tmp_path / "spark" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()
    parts = split(arrival_instants("bc-paug89-extract"), seed=5, substreams=10)
    table = rate_table({f"bc-paug89-extract-{k}": part for k, part in enumerate(parts)}, bin_s=1.0)
    statistics = json.loads((tmp_path / "spark" / "statistics.json").read_text())
    assert tuple(statistics["streams"]) == table.streams
    np.testing.assert_allclose(statistics["correlation"], table.correlation(), atol=1e-12)
    for moment in ("mean", "deviation"):
        found = [stream[moment] for stream in statistics["streams"].values()]
        np.testing.assert_allclose(found, getattr(table, moment)(), rtol=1e-12)

    problem = tmp_path / "spark" / "problem.yaml"
    streams = ", ".join(f"{name}: {{rates: history.csv}}" for name in table.streams)
    problem.write_text(
        f"sites: {{a: {{capacity: 1}}}}\nstreams: {{{streams}}}\n"
        f"operators: {{sum: {{inputs: [{', '.join(table.streams)}], cost_us: 10}}}}\n"
    )
    history = Problem.load(problem).history
    assert history is not None
    np.testing.assert_allclose(history.rates, table.rates, rtol=1e-8)


def test_text_is_counted_the_same_wherever_it_is_cut(small_splits: object, gaps: Path) -> None:
    request = TraceRequest((str(gaps),), substreams=4)
    here, spark = summarise_traces(request), summarise_on_spark(small_splits, request)
    assert gaps.stat().st_size > 5 * 20_000
    assert_same(spark, here)


def test_a_folder_is_one_trace_in_the_order_of_its_files(
    batch: SparkSession, gaps: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    lines = gaps.read_text().splitlines(keepends=True)
    for number, start in enumerate((0, 3000, 3001)):
        end = (3000, 3001, 8000)[number]
        (folder / f"part-{number}.txt").write_text("".join(lines[start:end]))
    whole = TraceRequest((str(gaps),), substreams=2, names=("a", "b"))
    parts = TraceRequest((str(folder),), substreams=2, names=("a", "b"))
    assert_same(summarise_on_spark(batch, parts), summarise_traces(whole))


def test_several_traces_share_their_bins(batch: SparkSession, gaps: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt.gz"
    other.write_bytes(gzip.compress(b"0.25\n" * 40))
    request = TraceRequest((str(gaps), str(other)), bin_s=2.0)
    assert_same(summarise_on_spark(batch, request), summarise_traces(request))


def test_counts_with_holes_are_added_up_in_longer_bins(batch: SparkSession, tmp_path: Path) -> None:
    late = tmp_path / "late.csv"
    late.write_text("minute,requests,bytes\n1998-06-24 00:07:00,90,1\n1998-06-24T00:31,30,\n")
    request = TraceRequest((str(late), "worldcup98-extract"), bin_s=300.0)
    here = summarise_traces(request)
    assert here.table.rates[1:7, 0].tolist() == [90 / 300, 0, 0, 0, 0, 30 / 300]
    assert_same(summarise_on_spark(batch, request), here)


BAD = {
    "word.txt": ("0.1\n" * 5000 + "oops\n" + "0.1\n" * 10, "gap 5001: .*oops"),
    "columns.txt": ("0.1\n0.2 0.3\n", "gap 2"),
    "negative.txt": ("0.1\n\n-0.1\n", "gap 2"),
    "late.txt": ("2e9\n" * 20_000, "add up"),
    "empty.txt": ("", "no gaps"),
    "blank.txt": ("\n \n", "no gaps"),
    "damaged.zip": ("PK no archive", "cannot be read or expanded"),
    "damaged.mat": ("x" * 500, "MATLAB"),
    "words.csv": ("minute,count\n1998-06-24 00:00:00,many\n", "many"),
    "month.csv": ("minute,count\n1998-13-24 00:00:00,1\n", "1998-13-24"),
    "twice.csv": ("minute,count\n1998-06-24 00:00:00,1\n1998-06-24 00:00:00,1\n", "twice"),
    "off.csv": ("minute,count\n1998-06-24 00:00:00,1\n1998-06-24 00:00:30,1\n", "multiple of 60"),
    "none.csv": ("minute,count\n", "no counts"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_trace_is_an_input_error_that_says_where(
    small_splits: object, tmp_path: Path, name: str
) -> None:
    text, complaint = BAD[name]
    path = tmp_path / name
    path.write_text(text)
    bin_s = 60.0 if name.endswith("csv") else 1.0
    with pytest.raises(InputError, match=complaint) as caught:
        summarise_on_spark(small_splits, TraceRequest((str(path),), bin_s=bin_s))
    assert caught.value.file == str(path)


@pytest.mark.parametrize("name", ["nowhere.txt", "nowhere.zip"])
def test_a_missing_trace_is_an_input_error(batch: SparkSession, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="nowhere"):
        summarise_on_spark(batch, TraceRequest((str(tmp_path / name),)))
