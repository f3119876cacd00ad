"""Problem files are read from disk as if a stranger had written them."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.model.problem.files import parse_json
from mooring.model.problem.problem import Problem

GOOD = "sites: {a: {capacity: 1}}\nstreams: {s: {rate: 1e6}}\noperators: {no: {inputs: [s], cost_us: 1}}\n"
GOOD_JSON = (
    '{"sites": {"a": {"capacity": 1}}, "streams": {"s": {"rate": 1e6}},'
    ' "operators": {"no": {"inputs": ["s"], "cost_us": 1}}}'
)


def load_text(folder: Path, text: str | bytes, name: str = "p.yaml") -> Problem:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return Problem.load(path)


def refused(folder: Path, text: str | bytes, name: str = "p.yaml") -> str:
    with pytest.raises(InputError) as caught:
        load_text(folder, text, name)
    assert caught.value.file == str(folder / name)
    assert len(str(caught.value)) < 500
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.yaml", GOOD),
        ("p.yml", GOOD),
        ("p", GOOD),
        ("p.json", GOOD_JSON),
        ("p.JSON", GOOD_JSON),
        ("q.yaml", GOOD_JSON),
    ],
)
def test_yaml_and_json_are_one_schema(name: str, text: str, tmp_path: Path) -> None:
    problem = load_text(tmp_path, text, name)
    assert problem.streams[0].rate == 1e6
    assert problem.operators[0].name == "no"


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    assert load_text(tmp_path, b"\xef\xbb\xbf" + GOOD_JSON.encode(), "p.json").sites[0].name == "a"


def test_the_path_may_be_text(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    assert Problem.load(str(tmp_path / "p.yaml")).sites


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' twice"),
        ('{"sites": {"a": {"capacity": 1, "capacity": 2}}}', "the key 'capacity' twice"),
        ('{"a": ', "not valid JSON at line 1, column 7"),
        ("", "not valid JSON"),
        ("[" * 100_000, "nesting"),
        ('{"a":' * 100_000, "nesting"),
        (GOOD_JSON.replace("1e6", "NaN"), "streams.s.rate: found nan"),
        (GOOD_JSON.replace("1e6", "-Infinity"), "streams.s.rate: found -inf"),
        (GOOD_JSON.replace("1e6", "9" * 5000), "streams.s.rate: found inf"),
        (GOOD_JSON.replace("1e6", '"\\ud800"'), "expected a number"),
        (GOOD_JSON.replace('"no"', '"\\ud800"'), "printable"),
    ],
)
def test_bad_json_is_refused(text: str, words: str, tmp_path: Path) -> None:
    assert words in refused(tmp_path, text, "p.json")


def test_duplicate_yaml_keys_are_refused_with_their_place(tmp_path: Path) -> None:
    text = GOOD.replace("operators: {", "operators: {no: {inputs: [s], cost_us: 2}, ")
    assert "found the key 'no' twice at line 3" in refused(tmp_path, text)


NONSENSE = {
    "bytes": np.random.default_rng(0).bytes(2_000_000),
    "ascii": np.random.default_rng(1).integers(32, 127, 2_000_000, dtype=np.uint8).tobytes(),
    "long line": b"a" * 5_000_000,
    "pairs": b"a: b\n" * 300_000,
    "nulls": b"\0" * 1_000_000,
    "brackets": b"[" * 1_000_000,
    "dashes": b"- " * 500_000,
    "anchors": b"&a " * 300_000,
    "open quote": b'"' + b"x" * 3_000_000,
    "separators": "\u2028".encode() * 500_000,
}


@pytest.mark.parametrize("name", ["p.yaml", "p.json"])
@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_large_file_of_nonsense_is_refused(name: str, nonsense: str, tmp_path: Path) -> None:
    assert refused(tmp_path, NONSENSE[nonsense], name)


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    for path, words in [
        (tmp_path / "missing.yaml", "no such file"),
        (tmp_path, "not a regular file"),
        (tmp_path / "a\0b", "cannot be read"),
        (tmp_path / ("x" * 300), "cannot be read"),
        (tmp_path / "p.yaml" / "q.yaml", "cannot be read"),
    ]:
        (tmp_path / "p.yaml").write_text(GOOD)
        with pytest.raises(InputError, match=words):
            Problem.load(path)


def test_a_device_is_not_read() -> None:
    with pytest.raises(InputError, match="not a regular file"):
        Problem.load("/dev/zero")


def test_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    assert "not UTF-8 at offset 0" in refused(tmp_path, GOOD.encode("utf-16"))


def test_aliases_cannot_multiply_the_work(tmp_path: Path) -> None:
    many = ", ".join(f"s{k}: {{rate: 1}}" for k in range(5000))
    inputs = ", ".join(f"s{k}" for k in range(5000))
    operators = "\n".join(f"  o{k}: *o" for k in range(5000))
    text = (
        f"sites: {{a: {{capacity: 1}}}}\nstreams: {{{many}}}\n"
        f"operators:\n  o: &o {{inputs: [{inputs}], cost_us: 1}}\n{operators}\n"
    )
    assert "aliases that stand for more than" in refused(tmp_path, text)


def test_instances_cannot_ask_for_all_memory(tmp_path: Path) -> None:
    operators = "\n".join(f"  o{k}: {{inputs: [s], cost_us: 1, instances: 1000000}}" for k in range(100))
    text = f"sites: {{a: {{capacity: 1}}}}\nstreams: {{s: {{rate: 1}}}}\noperators:\n{operators}\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mooring.model.problem.schema.MAX_OPERATORS", 50_000)
        assert "at most 50000 operators and instances" in refused(tmp_path, text)


def test_the_collector_is_left_as_it_was(tmp_path: Path) -> None:
    assert gc.isenabled()
    load_text(tmp_path, GOOD)
    assert gc.isenabled()
    refused(tmp_path, "x")
    assert gc.isenabled()
    gc.disable()
    try:
        load_text(tmp_path, GOOD)
        assert not gc.isenabled()
    finally:
        gc.enable()


@given(st.text(max_size=50) | st.text('[]{}:,"0123456789.eE+-truefalsn \\u', max_size=50))
def test_any_text_is_json_or_refused(text: str) -> None:
    with suppress(InputError):
        parse_json(text)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_problem_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    with suppress(InputError):
        Problem.load(path)


@given(st.integers(0, len(GOOD) - 1), st.characters(codec="utf-8"))
def test_a_good_file_with_one_character_changed_is_a_problem_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, character: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "one.yaml"
    path.write_text(GOOD[:at] + character + GOOD[at + 1 :], encoding="utf-8")
    with suppress(InputError):
        Problem.load(path)
