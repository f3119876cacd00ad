"""What is asked of traces, and the answer in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.traces.rates import rate_series
from mooring.traces.read import arrival_instants
from mooring.traces.summary import TraceRequest, summarise_traces


def test_sub_streams_add_up_to_the_trace() -> None:
    summary = summarise_traces(TraceRequest(("bc-paug89-extract",), bin_s=2.0, substreams=3, seed=1))
    whole = rate_series(arrival_instants("bc-paug89-extract"), 2.0)
    np.testing.assert_allclose(summary.table.rates.sum(axis=1), whole)
    assert summary.table.streams == tuple(f"bc-paug89-extract-{part}" for part in range(3))


def test_counts_of_several_files_share_one_clock(tmp_path: Path) -> None:
    for name, text in {
        "a": "1998-06-24 00:01:00,60\n1998-06-24 00:04:00,120\n",
        "b": "1998-06-24 00:02:00,30\n",
    }.items():
        (tmp_path / f"{name}.csv").write_text("minute,count\n" + text)
    traces = (str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    fine = summarise_traces(TraceRequest(traces, bin_s=60.0))
    assert fine.table.streams == ("a", "b")
    assert fine.table.rates.tolist() == [[1, 0], [0, 0.5], [0, 0], [2, 0]]
    coarse = summarise_traces(TraceRequest(traces, bin_s=120.0, names=("x", "y")))
    assert coarse.table.rates.tolist() == [[0.5, 0.25], [1, 0]]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"traces": ()}, "no trace"),
        ({"traces": ("a.txt", "b.csv")}, "together"),
        ({"traces": ("a.csv",), "bin_s": 60.0, "substreams": 2}, "cannot be cut"),
        ({"traces": ("a.csv",), "bin_s": 90.0}, "multiple of 60"),
        ({"traces": ("a.txt", "b/a.txt")}, "once"),
        ({"traces": ("time_s.txt",)}, "once"),
        ({"traces": ("a.txt",), "names": ("a", "b")}, "2 names for 1"),
        ({"traces": ("a.txt",), "substreams": 5000}, "too many"),
        ({"traces": ("a.txt",), "bin_s": float("nan")}, "positive"),
        ({"traces": ("a.txt",), "substreams": 0}, "at least 1"),
    ],
)
def test_a_request_without_meaning_is_refused(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        TraceRequest(**wrong)


@pytest.mark.parametrize(("bin_s", "what"), [(3600.0, "less than a bin"), (1e-4, "too many")])
def test_bins_that_do_not_fit_the_trace_are_refused(bin_s: float, what: str) -> None:
    with pytest.raises(InputError, match=what):
        summarise_traces(TraceRequest(("bc-paug89-extract",), bin_s=bin_s))
