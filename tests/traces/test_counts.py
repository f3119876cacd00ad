"""Traces of counts: one number per bin."""

from __future__ import annotations

import contextlib
import gzip
import io
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.traces.counts import read_counts

THREE_MINUTES = "period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:31:00,11\n1998-04-30 21:33:00,7\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "counts.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_minute_that_the_file_leaves_out_had_no_request(tmp_path: Path) -> None:
    counts = read_counts(written(tmp_path, THREE_MINUTES))
    assert counts.counts.tolist() == [2, 11, 0, 7]
    assert counts.start == "1998-04-30T21:30:00"
    np.testing.assert_allclose(counts.rates, np.array([2, 11, 0, 7]) / 60)


def test_a_part_keeps_its_own_beginning(tmp_path: Path) -> None:
    part = read_counts(written(tmp_path, THREE_MINUTES)).between(1, 3)
    assert part.start == "1998-04-30T21:31:00"
    assert part.counts.tolist() == [11, 0]


def test_compressed_counts_are_the_same_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counts.csv.gz").write_bytes(gzip.compress(THREE_MINUTES.encode()))
    assert read_counts(tmp_path / "counts.csv.gz").counts.tolist() == [2, 11, 0, 7]

    class Decompressor:
        """Stands in for the optional library: same call, no compression."""

        def stream_reader(self, raw: io.BufferedReader, read_across_frames: bool) -> io.BufferedReader:
            assert read_across_frames
            return raw

    def only_zstandard(name: str) -> types.SimpleNamespace:
        if name != "zstandard":
            raise ImportError(name)
        return types.SimpleNamespace(ZstdDecompressor=Decompressor)

    (tmp_path / "counts.csv.zst").write_text(THREE_MINUTES)
    monkeypatch.setattr("importlib.import_module", only_zstandard)
    assert read_counts(tmp_path / "counts.csv.zst").counts.tolist() == [2, 11, 0, 7]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("period,count\n1998-04-30 21:30:00,-2\n", "line 2"),
        ("period,count\n1998-04-30 21:30:00,nan\n", "line 2"),
        ("period,count\n1998-04-30 21:30:00\n", "line 2"),
        ("period,count\nyesterday,3\n", "line 2"),
        ("period,count\nnow,3\n", "line 2"),
        ("period,count\nNaT,3\n", "line 2"),
        ("period,count\n1998-13-30 21:30:00,2\n", "first column"),
        ("period,count\n1998-04-30 21:30:00,\u00b2\n", "line 2"),
        ("period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:30:00,2\n", "line 3"),
        ("period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:30:30,2\n", "line 3"),
        ("period,count\n1900-01-01 00:00:00,2\n1998-04-30 21:30:00,2\n", "at most"),
        ("period,count\n", "no counts"),
    ],
)
def test_wrong_counts_are_refused_with_their_line(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        read_counts(written(tmp_path, text))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=60), at=st.integers(0, 80), cut=st.integers(0, 80))
def test_damaged_counts_never_raise_anything_but_an_input_error(
    tmp_path: Path, noise: bytes, at: int, cut: int
) -> None:
    path = tmp_path / "counts.csv"
    whole = THREE_MINUTES.encode()
    path.write_bytes(whole[:at] + noise + whole[at + cut :])
    with contextlib.suppress(InputError):
        assert (read_counts(path).counts >= 0).all()
