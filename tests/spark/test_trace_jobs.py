"""Rates, moments and correlations from Spark equal those the simulator computes in-process."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.simulator.traces.counts import read_counts
from mooring.simulator.traces.packets import draw_packets
from mooring.simulator.traces.rates import rate_table, read_rates, write_rates
from mooring.simulator.traces.read import arrival_instants
from mooring.simulator.traces.substreams import substream_of
from mooring.spark.trace_jobs import (
    counted,
    packet_files,
    packet_trace,
    rate_series,
    request_counts,
    statistics,
    sub_streams,
)


def test_a_packet_trace_becomes_the_same_rate_table_as_in_process(session, tmp_path) -> None:
    packets = draw_packets(arrival_instants("bc-paug89-extract"), 3)
    part = substream_of(packets.source, 5)
    arrivals = {f"s{k}": packets.instant_s[part == k] for k in range(5)}
    expected = rate_table(arrivals, 1.0, float(packets.instant_s[-1]))
    counts, bins = counted(sub_streams(packet_trace(session, "bc-paug89-extract", 3), 5), 1.0)
    found = rate_series(counts, bins, 1.0)
    assert found.streams == expected.streams
    np.testing.assert_array_equal(found.rates, expected.rates)
    measured = statistics(counts, bins, 1.0)
    np.testing.assert_allclose(measured.mean, expected.mean(), rtol=1e-12)
    np.testing.assert_allclose(measured.deviation, expected.deviation(), rtol=1e-9)
    np.testing.assert_allclose(measured.correlation, expected.correlation(), atol=1e-9)
    write_rates(tmp_path / "rates.csv", found)
    np.testing.assert_array_equal(read_rates(tmp_path / "rates.csv").rates, expected.rates)


def test_packets_in_files_are_read_by_the_cluster(session, tmp_path) -> None:
    (tmp_path / "packets.csv").write_text("instant_s,source\n0.5,1\n0.7,2\n3.2,1\n4.0,1\n")
    counts, bins = counted(sub_streams(packet_files(session, str(tmp_path / "packets.csv")), 2), 2.0)
    table = rate_series(counts, bins, 2.0)
    assert table.streams == ("s0", "s1")
    np.testing.assert_array_equal(table.rates, [[0.5, 0.5], [0.0, 0.5]])


def test_a_request_trace_becomes_a_rate_series(session) -> None:
    counts, bins = request_counts(session, "worldcup98-extract")
    table = rate_series(counts, bins, 60.0)
    expected = np.asarray(read_counts("worldcup98-extract").counts) / 60.0
    np.testing.assert_array_equal(table.rates[:, 0], expected)
    np.testing.assert_allclose(statistics(counts, bins, 60.0).mean, [expected.mean()])
