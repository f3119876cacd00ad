"""Large files are read row by row, and hold what small ones hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import InputError
from mooring.model.problem import files
from mooring.model.problem.files import load_data, parse_json
from mooring.model.problem.reading.json_rows import JsonRows, split_rows

CONTENT: dict[str, Any] = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 2}, "c:d": {"capacity": 2}},
    "latency_ms": {"a": {"b": 1.5, "c:d": 2}, "b": {"c:d": 1e-3}},
    "streams": {"s": {"rate": 10}},
    "operators": {"o": {"inputs": ["s"], "cost_us": 3}},
    "changes": [{"at_s": 1, "link": ["a", "b"], "latency_ms": 4}],
}


def loaded(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    (folder / "p.json").write_text(text)
    return load_data(folder / "p.json")


@pytest.mark.parametrize("indent", [None, 2])
def test_rows_are_what_the_parser_of_small_files_finds(
    indent: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = loaded(json.dumps(CONTENT, indent=indent), tmp_path, monkeypatch)
    assert isinstance(found["latency_ms"], JsonRows)
    assert {**found, "latency_ms": dict(found["latency_ms"])} == CONTENT


@pytest.mark.parametrize(
    "latency_ms",
    [
        '{"a": 3}',
        '{"file": "m.csv"}',
        '{"a}": {"b": 1}}',
        '{"a": {"b}": 1}}',
        "{}",
        '{"a": {"b": {}}}',
        '{"a\\u0062": {"b": 1}}',
    ],
)
def test_what_is_unusual_is_left_to_the_parser_of_small_files(
    latency_ms: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'{{"sites": {{}}, "latency_ms": {latency_ms}}}'
    found = loaded(text, tmp_path, monkeypatch)
    plain = {key: dict(value) if isinstance(value, JsonRows) else value for key, value in found.items()}
    assert plain == parse_json(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"latency_ms": {"a": {"b": 1}, "a": {"b": 2}}}', "found the key 'a' twice"),
        ('{"latency_ms": {"a": {"b": 1}}, "sites": {}, "sites": {}}', "found the key 'sites' twice"),
        ('{"latency_ms": {"a": {"b": 1}}, "sites": }', "not valid JSON at line 1"),
    ],
)
def test_mistakes_are_told_as_of_small_files(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=said):
        loaded(text, tmp_path, monkeypatch)


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = loaded(json.dumps(CONTENT), tmp_path, monkeypatch)
    (tmp_path / "p.json").write_text("{}")
    with pytest.raises(InputError, match="changed while it was read"):
        found["latency_ms"]["a"]


def test_a_row_with_a_key_twice_is_refused_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"latency_ms": {"a": {"b": 1, "b": 2}, "c": {"d": NaN}}}')
    split = split_rows((tmp_path / "p.json").read_bytes(), tmp_path / "p.json", parse_json)
    assert split is not None
    with pytest.raises(InputError, match="found the key 'b' twice"):
        split[1]["a"]
    row = split[1]["c"]
    assert isinstance(row, dict)
    assert str(row["d"]) == "nan"  # for the check of the field to name
