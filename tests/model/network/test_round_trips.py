"""Published latencies are read as published, and cleaned only when asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.model.network.round_trips import RoundTrips, read_matrix, read_pings
from mooring.model.network.shipped import aws_regions, planetlab


def test_ping_summaries_give_the_mean_from_row_to_column(tmp_path: Path) -> None:
    (tmp_path / "here.dat").write_text("0.1/0.2/0.3/0.01:here\n10.0/11.5/20.0/0.1:there\n")
    (tmp_path / "there.dat").write_text("9.0/12.5/20.0/0.1:here\n0.1/0.3/0.3/0.01:there\n")
    pings = read_pings(tmp_path)
    assert pings.names == ("here", "there")
    assert pings.rtt_ms.tolist() == [[0.2, 11.5], [12.5, 0.3]]
    assert pings.one_way_ms().tolist() == [[0.0, 6.0], [6.0, 0.0]]


def test_a_line_that_is_no_ping_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "here.dat").write_text("0.1/0.2/0.3/0.01:here\nnonsense\n")
    with pytest.raises(InputError, match=r"here\.dat.*line 2"):
        read_pings(tmp_path)


def test_what_is_no_square_matrix_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m1").write_text("1 2 3\n4 5 6\n")
    (tmp_path / "m2").write_text("1 x\n4 5\n")
    with pytest.raises(InputError, match="square"):
        read_matrix(tmp_path / "m1")
    with pytest.raises(InputError, match="not a matrix"):
        read_matrix(tmp_path / "m2")


def test_gaps_are_filled_from_the_other_way_or_the_best_detour() -> None:
    rtt = np.array([[0.0, 10.0, np.nan], [0.0, 0.0, 30.0], [np.nan, 30.0, 0.0]])
    assert RoundTrips(("a", "b", "c"), rtt).one_way_ms().tolist() == [[0, 5, 20], [5, 0, 15], [20, 15, 0]]


def test_shipped_extracts_agree_with_what_their_source_says() -> None:
    aws = aws_regions()
    off_diagonal = aws.rtt_ms[~np.eye(19, dtype=bool)]
    assert off_diagonal.min() == pytest.approx(7.78, abs=0.01)
    assert np.median(off_diagonal) == pytest.approx(150.6, abs=0.1)
    lab = planetlab().rtt_ms
    assert lab.shape == (490, 490)
    assert np.array_equal(lab, lab.T)
    assert np.median(lab) == pytest.approx(135.0, rel=0.05)
