"""Bad input gives one message and exit code 2, never a traceback; with --json, a document that says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

BAD_COMMANDS = [
    (),
    ("pln",),
    ("plan",),
    ("plan", "FILE", "--seed", "x"),
    ("plan", "FILE", "--seed", "-1"),
    ("plan", "FILE", "--budget", "0"),
    ("plan", "FILE", "--budget", "nan"),
    ("plan", "FILE", "--steps", "many"),
    ("plan", "FILE", "--unknown"),
    ("plan", "FILE", "--policy", "rdo"),
    ("plan", "FILE", "--set", "nothing"),
    ("plan", "FILE", "--set", "nothing=1"),
    ("plan", "FILE", "--from", "no-such-file.json"),
    ("plan", "FILE", "--max-moves", "2"),
    ("plan", "FILE", "--output", "/proc/no/such/place.json"),
    ("plan", "no-such-file.yaml"),
    ("evaluate", "FILE"),
    ("evaluate", "FILE", "--placement", "FILE"),
    ("evaluate", "FILE", "--placement", "no-such-file.json"),
    ("compare", "FILE", "--policies", "rod,nobody"),
    ("compare", "FILE", "--policies", ","),
    ("headroom", "."),
    ("chunks",),
    ("chunks", "FILE"),
    ("chunks", "no-such-file.yaml"),
    ("chunks", "FILE", "--assign", "teired"),
    ("chunks", "FILE", "--search", "luck"),
    ("chunks", "FILE", "--most-chunks", "0"),
    ("chunks", "FILE", "--from", "no-such-file.json"),
    ("doctor",),
    ("doctor", "no-such-folder"),
    ("tables", "no-such-folder"),
    ("logs", "no-such-folder"),
    ("logs", ".", "--lines", "0"),
    ("agent", "no-such-folder"),
    ("agent", ".", "--site", "x"),
    ("agent", ".", "--days", "0"),
    ("generate", "--operators", "11"),
    ("generate", "--network", "nowhere"),
    ("generate", "--capacity", "1,2,3"),
    ("generate", "--operators", "5", "--output", "/proc/no/such/place.yaml"),
    ("experiment", "figure41"),
    ("experiment", "figure14"),
    ("experiment", "rod_figure14", "--quick", "--output", "/proc/no/such/place"),
]


@pytest.mark.parametrize("words", BAD_COMMANDS, ids=" ".join)
def test_a_bad_command_says_what_was_wrong_and_exits_2(
    mooring: Mooring, small: Path, words: tuple[str, ...]
) -> None:
    given = [small if word == "FILE" else word for word in words]
    result = mooring(*given)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("mooring: ")
    assert "Traceback" not in result.err
    as_json = mooring(*given, "--json")
    assert as_json.code == 2
    assert list(as_json.document) == ["error"]
    assert as_json.document["error"]["message"]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("pln",), "plan"),
        (("plan", "FILE", "--policy", "rdo"), "rod"),
        (("experiment", "rod_figur14"), "rod_figure14"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest_known_one(
    mooring: Mooring, small: Path, words: tuple[str, ...], meant: str
) -> None:
    result = mooring(*(small if word == "FILE" else word for word in words))
    assert result.code == 2
    assert f"{meant}?" in result.err or f"{meant!r}" in result.err


BAD_FILES = {
    "unknown key": "sites: {a: {capacty: 1}}",
    "unknown site": "sites: {a: {capacity: 1}}\nstreams: {x: {rate: 1, site: b}}\n"
    "operators: {f: {inputs: [x], cost_us: 1}}",
    "not a number": "sites: {a: {capacity: .nan}}\nstreams: {x: {rate: 1}}\n"
    "operators: {f: {inputs: [x], cost_us: 1}}",
    "twice": "sites: {a: {capacity: 1}, a: {capacity: 2}}",
    "empty": "",
    "a list": "[1, 2, 3]",
    "not text": b"\xff\xfe\x00\x01",
}


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_named_with_the_field(mooring: Mooring, tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = mooring("plan", path, "--json")
    assert result.code == 2
    assert result.document["error"]["file"] == str(path)


words = st.sampled_from(
    ["sites", "streams", "operators", "queries", "a", "b", "capacity", "rate", "inputs", "load"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | words
nonsense = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=nonsense, as_yaml=st.booleans())
def test_nonsense_never_gives_a_traceback(
    mooring: Mooring, tmp_path: Path, data: object, as_yaml: bool
) -> None:
    import json

    path = tmp_path / ("nonsense.yaml" if as_yaml else "nonsense.json")
    path.write_text(json.dumps(data), encoding="utf-8")
    result = mooring("check", path, "--json")
    assert result.code in (0, 2, 3)
    assert ("error" in result.document) == (result.code == 2)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=60)
    | st.text(alphabet="{}[]:,-&*!|>'\"%@`#? \n\tab1", max_size=40).map(str.encode)
)
def test_random_bytes_never_give_a_traceback(mooring: Mooring, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bytes.yaml"
    path.write_bytes(content)
    result = mooring("check", path, "--json")
    assert result.code == 2
    assert result.document["error"]["file"] == str(path)


OVERLOADED = {
    "fixed load beyond all capacity": "{inputs: [x], cost_us: 1, fixed_cores: 3}",
    "minimum rates outside the ideal set": "{inputs: [x], cost_us: 100000}",
}


@pytest.mark.parametrize("operator", OVERLOADED.values(), ids=OVERLOADED)
def test_what_no_placement_can_carry_exits_3(mooring: Mooring, tmp_path: Path, operator: str) -> None:
    path = tmp_path / "heavy.yaml"
    path.write_text(
        "sites: {a: {capacity: 1}, b: {capacity: 1}}\n"
        "streams: {x: {rate: 100, min_rate: 50}}\n"
        f"operators: {{f: {operator}}}\n"
    )
    result = mooring("plan", path, "--json")
    assert result.code == 3
    assert result.document["error"]["kind"] == "InfeasibleError"
    checked = mooring("check", path, "--json")
    assert (checked.code, checked.document["feasible"]) == (3, False)
    compared = mooring("compare", path, "--policies", "rod,random", "--json")
    assert compared.code == 0
    assert all("reason" in result for result in compared.document["policies"].values())
    placement = tmp_path / "placement.json"
    placement.write_text('{"f": "a"}')
    evaluated = mooring("evaluate", path, "--placement", placement, "--json")
    assert evaluated.code == 0
    assert evaluated.document["violations"]
