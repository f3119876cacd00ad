"""A problem file with several mistakes is told of all of them at once, each as it would be alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.main import main
from mooring.errors import InputError, InputErrors
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.fields import MOST_PROBLEMS

SOUND: dict[str, Any] = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}, "c": {"capacity": 1}},
    "streams": {"x": {"rate": 10}, "y": {"rate": 10}},
    "operators": {
        "f": {"inputs": ["x"], "cost_us": 3},
        "g": {"inputs": ["y"], "cost_us": 3},
        "h": {"inputs": ["f", "g"], "cost_us": 3},
    },
    "queries": {"out": {"reads": "h", "site": "a"}, "all": {"reads": "g", "site": "b"}},
}
MISTAKES: list[tuple[str, str, dict[str, Any]]] = [
    ("sites", "a", {"capacity": 1, "memry_mb": 3}),
    ("sites", "b", {"capacity": -1}),
    ("sites", "c", {}),
    ("streams", "x", {"rate": "ten"}),
    ("streams", "y", {"rate": 10, "site": "nowhere"}),
    ("operators", "f", {"inputs": ["x"], "cost_uss": 3}),
    ("operators", "g", {"inputs": ["q"], "cost_us": 3}),
    ("operators", "h", {"inputs": ["f", "g"], "cost_us": 3, "site": "elsewhere"}),
    ("queries", "out", {"reads": "hh", "site": "a"}),
    ("queries", "all", {"reads": "g", "sight": "b"}),
]
"""One per entry: section, entry, and its fields instead of the sound ones. Others name those entries."""


def with_mistakes(mistakes: list[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(SOUND))
    for section, key, fields in mistakes:
        made[section][key] = fields
    return made


def refused(data: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        Problem.from_dict(data)
    return caught.value


def test_every_mistake_is_told_as_it_would_be_alone() -> None:
    assert Problem.from_dict(SOUND).sites
    together = refused(with_mistakes(MISTAKES))
    assert isinstance(together, InputErrors)
    alone = [refused(with_mistakes([mistake])) for mistake in MISTAKES]
    assert not any(isinstance(each, InputErrors) for each in alone)
    assert [str(each) for each in together.errors] == [str(each) for each in alone]


def test_several_mistakes_of_one_entry_are_all_told() -> None:
    fields = {"inputs": ["x"], "cost_uss": 3, "selectivity": -1, "kind": "fliter"}
    together = refused(with_mistakes([("operators", "f", fields)]))
    assert isinstance(together, InputErrors)
    assert [each.field for each in together.errors] == [
        "operators.f",
        "operators.f.selectivity",
        "operators.f.kind",
    ]


def test_a_section_that_is_missing_is_told_once_and_nothing_of_those_who_name_its_entries() -> None:
    error = refused({key: section for key, section in SOUND.items() if key != "sites"})
    assert not isinstance(error, InputErrors)
    assert error.field == "sites"


def test_changes_are_told_all_at_once() -> None:
    wrong = [{"at_s": 1, "stream": "none", "rate": 3}, {"at_s": 2, "site": "a", "lots": True}]
    error = refused({**SOUND, "changes": wrong})
    assert isinstance(error, InputErrors)
    assert [each.field for each in error.errors] == ["changes[0].stream", "changes[1]"]


def test_a_file_of_endless_mistakes_is_not_read_to_its_end() -> None:
    operators = {f"o{k}": {"inputs": [f"none{k}"], "nonsense": k} for k in range(100_000)}
    error = refused({**SOUND, "operators": operators})
    assert isinstance(error, InputErrors)
    assert len(error.errors) == MOST_PROBLEMS
    assert "there may be more" in str(error)
    long = refused({**SOUND, **{f"section{k}": k for k in range(100_000)}})
    assert isinstance(long, InputErrors)
    assert len(long.errors) == MOST_PROBLEMS


@pytest.mark.parametrize("verb", ["check", "plan"])
def test_the_command_line_shows_them_with_the_file(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(with_mistakes(MISTAKES)))
    assert main([verb, str(file)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.count(str(file)) == len(MISTAKES)
    assert main([verb, str(file), "--json"]) == 2
    document = json.loads(capsys.readouterr().out)["error"]
    assert document["message"] == f"{len(MISTAKES)} problems"
    assert {each["file"] for each in document["errors"]} == {str(file)}
