"""Past rates come from CSV files beside the problem."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.model.problem.history import read_history_columns
from mooring.model.problem.problem import Problem


def load(folder: Path, history: str | bytes, streams: str = "s: {rates: past.csv}, t: {rate: 4}") -> Problem:
    (folder / "past.csv").write_bytes(history.encode() if isinstance(history, str) else history)
    (folder / "p.yaml").write_text(
        f"sites: {{a: {{capacity: 1}}}}\nstreams: {{{streams}}}\n"
        "operators: {o: {inputs: [s], cost_us: 1}}\n"
    )
    return Problem.load(folder / "p.yaml")


def test_the_present_rate_is_the_mean_unless_given(tmp_path: Path) -> None:
    assert load(tmp_path, "s\n10\n20\n60\n").streams[0].rate == 30.0
    assert load(tmp_path, "s\n10\n20\n60\n", "s: {rate: 7, rates: past.csv}").streams[0].rate == 7.0


def test_a_stream_without_a_history_keeps_its_rate_in_it(tmp_path: Path) -> None:
    problem = load(tmp_path, "time_s,s,other\n0,10,1\n1,20,1\n")
    assert problem.history is not None
    assert np.array_equal(problem.history.rates, [[10, 4], [20, 4]])
    assert np.array_equal(problem.history.peaks, [20, 4])


def test_one_column_serves_whatever_it_is_called(tmp_path: Path) -> None:
    assert load(tmp_path, "time_s,rate\n0,10\n1,20\n").streams[0].rate == 15.0


def test_streams_find_their_own_columns(tmp_path: Path) -> None:
    problem = load(tmp_path, "\ufefft, s\n1,2\n3,4\n", "s: {rates: past.csv}, t: {rates: past.csv}")
    assert problem.history is not None
    assert np.array_equal(problem.history.rates, [[2, 1], [4, 3]])


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ("", "header with empty or repeated names|found no rows"),
        ("s\n", "found no rows"),
        ("s,s\n1,2\n", "repeated names"),
        ("s,\n1,2\n", "empty or repeated"),
        ("s,t\n1\n", "found 1 columns in line 2, expected 2"),
        ("s\n1\nx\n", "text in line 3, expected numbers"),
        ("s\n-1\n", "negative or not finite rate in line 2"),
        ("s\nnan\n", "not finite"),
        ("s\ninf\n", "not finite"),
        ("a,b\n1,2\n", "a column named after the stream"),
        ("packets,s1\n1,2\n", "did you mean 's1'"),
        (b"s\n\xff\xfe\n", "cannot be read"),
        ('s\n"' + "x" * 200_000, "cannot be read"),
    ],
)
def test_a_bad_history_is_refused(history: str | bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load(tmp_path, history)
    assert caught.value.file is not None


def test_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.model.problem.history.MAX_ROWS", 3)
    with pytest.raises(InputError, match="more than 3 rows"):
        load(tmp_path, "s\n1\n1\n1\n1\n")


@pytest.mark.parametrize("file", ["../past.csv", "/etc/passwd", "missing.csv", ".", "x" * 199, "é" * 190])
def test_only_files_beside_the_problem_are_opened(file: str, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "past.csv").write_text("s\n1\n")
    with pytest.raises(InputError) as caught:
        load(tmp_path / "inner", "s\n1\n", f'"s": {{rates: "{file}"}}')
    assert caught.value.field == "streams.s.rates"


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "secret.csv").write_text("s\n1\n")
    (tmp_path / "inner" / "link.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(InputError, match="in the folder of the problem"):
        load(tmp_path / "inner", "s\n1\n", "s: {rates: link.csv}")


@given(st.binary(max_size=60) | st.text("s,t\n0123456789.-e\"'", max_size=60).map(str.encode))
def test_any_bytes_are_a_history_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content)
    try:
        columns = read_history_columns(path)
    except InputError:
        return
    assert all(np.all(np.isfinite(column) & (column >= 0)) for column in columns.values())
