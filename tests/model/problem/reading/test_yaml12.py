"""YAML is read by version 1.2's core schema, and nothing in a file can do harm."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.model.problem.reading import yaml12
from mooring.model.problem.reading.yaml12 import parse_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e6", 1e6),
        ("1E+3", 1000.0),
        (".5", 0.5),
        ("-.5e-3", -0.0005),
        ("12.", 12.0),
        ("007", 7),
        ("-12", -12),
        ("0o7", 7),
        ("0x1F", 31),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("-.inf", -math.inf),
        # Traps: all of these are something else to a reader of YAML 1.1.
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("190:20:30", "190:20:30"),
        ("0b101", "0b101"),
        ("+", "+"),
        (".", "."),
        ("1e", "1e"),
        ('"12"', "12"),
        ("'true'", "true"),
        ("!!str 12", "12"),
        ('!!float "1e6"', 1e6),
    ],
)
def test_scalars_mean_what_the_core_schema_says(text: str, value: object) -> None:
    found = parse_yaml(f"x: {text}")
    assert found == {"x": value}
    assert type(found["x"]) is type(value)


def test_nan_is_read_so_that_the_field_can_refuse_it_by_name() -> None:
    assert math.isnan(parse_yaml(".nan"))  # type: ignore[arg-type]


def test_keys_are_always_text() -> None:
    assert parse_yaml("{1: a, true: b, ~: c, 1e6: d}") == {"1": "a", "true": "b", "~": "c", "1e6": "d"}


def test_aliases_stand_for_their_anchor() -> None:
    assert parse_yaml("a: &x {n: &y 3}\nb: *x\nc: *y") == {"a": {"n": 3}, "b": {"n": 3}, "c": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "the key 'a' twice at line 3, column 1"),
        ("{a: {b: 1, c: 2, b: 3}}", "the key 'b' twice at line 1"),
        ('{a: 1, "a": 2}', "the key 'a' twice"),
        ("a: &x [*x]", "without an anchor"),
        ("a: *nowhere", "alias 'nowhere'"),
        ("{[1, 2]: 3}", "a list or mapping as a key"),
        ("? {a: b}\n: c", "a list or mapping as a key"),
        ("a: &n 5\nb: {*n : 1}", "found 5 as a key"),
        ("a: {<<: {b: 1}}", "merge key"),
        ("!!python/object/apply:os.system [ls]", "tag"),
        ("a: !secret x", "tag"),
        ("a: !!timestamp 2024-01-01", "tag"),
        ("a: !!map x", "tag"),
        ("a: 1\n---\nb: 2", "2 YAML documents"),
        ("a: [1, 2", "not valid YAML"),
        ("a: 1\n b: 2", "at line 2, column 3: found an indent of 1, and the lines that it may belong to"),
        ("a:\n  b: 1\n   c: 2", "are indented by 0 or 2 (indent it by 2)"),
        ("a:\n- b: 1\n c: 2", "are indented by 0 or 2"),
        ("a:\n\tb: 1", "at line 2, column 1: found a tab, and YAML is indented with spaces"),
        ("a: {b: 1\nc: 2", "the { of line 1 is not closed (close it with })"),
        ("a: [1\nb: 2", "the [ of line 1 is not closed (close it with ])"),
        ("a: b: c", "at line 1, column 5: mapping values are not allowed in this context (put a text"),
        ("\x01", "not valid YAML"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_is_refused_and_how_it_is_told(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_yaml(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_an_empty_file_is_nothing(text: str) -> None:
    assert parse_yaml(text) is None


def test_a_quoted_merge_sign_is_a_name() -> None:
    assert parse_yaml('{"<<": 1}') == {"<<": 1}


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 10_000, "[" * 65 + "]" * 65])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"nesting deeper than 64|not valid YAML"):
        parse_yaml(text)


def test_nesting_up_to_the_limit_is_read() -> None:
    value = parse_yaml("[" * 64 + "]" * 64)
    for _ in range(63):
        assert isinstance(value, list)
        value = value[0]
    assert value == []


def test_aliases_cannot_blow_up() -> None:
    """Nine levels of nine aliases: a billion values in 400 bytes."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 10)]
    with pytest.raises(InputError, match="aliases that stand for more than"):
        parse_yaml("\n".join(lines))


def test_a_long_message_is_never_made_of_a_long_file() -> None:
    key = "k" * 900
    with pytest.raises(InputError) as caught:
        parse_yaml(f"{key}: 1\n{key}: 2")
    assert len(str(caught.value)) < 300


text = st.text("abz 019:{}[],#&*!|>'\"\\\n\té\u2028", max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_json_is_read_as_what_it_is(value: object) -> None:
    """JSON is YAML 1.2; only infinities are spelled differently."""
    written = json.dumps(value)
    assert parse_yaml(written.replace("Infinity", ".inf")) == json.loads(written)


@given(st.text(max_size=60) | st.text("[]{}:,-?&*!|>'\"%@# \n\ta1", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        parse_yaml(text)


@given(st.text("[]{}:,-?&*!|>'\"%@# \na1", max_size=30))
def test_the_parser_without_libyaml_gives_the_same_data(text: str) -> None:
    """Where both accept a text: they differ in a few corners of what they refuse."""
    with pytest.MonkeyPatch.context() as patch:
        results: list[object] = []
        for parser in (yaml.CSafeLoader, yaml.SafeLoader):
            patch.setattr(yaml12, "_Parser", parser)
            try:
                results.append(parse_yaml(text))
            except InputError:
                return
    assert results[0] == results[1]
