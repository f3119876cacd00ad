"""Results show themselves in a notebook, escaped; each cell of the example notebook shows something short."""

from __future__ import annotations

import ast
import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring.cli.main import main

NOTEBOOK = Path(__file__).parent.parent / "examples" / "notebook.py"
EVIL = "<script>alert('&')</script>"
PROBLEM: dict[str, Any] = {
    "sites": {EVIL: {"capacity": 1}, "b": {"capacity": 1}},
    "latency_ms": {EVIL: {"b": 10}},
    "streams": {"x": {"rate": 100, "site": EVIL}, "idle": {"rate": 5, "site": "b"}},
    "operators": {"f": {"inputs": ["x"], "cost_us": 500}, "g": {"inputs": ["x"], "cost_us": 2500}},
    "queries": {EVIL: {"reads": "g", "site": "b", "max_latency_ms": 50}},
}


class Tags(HTMLParser):
    """What a table consists of; fails where a tag is closed that is not open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen, self.text, self._open = set[str](), list[str](), list[str]()
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def results() -> dict[str, Any]:
    """One of each kind that shows itself."""
    made = mooring.plan(PROBLEM)
    return {
        "plan": made,
        "comparison": mooring.compare(PROBLEM, ["rod", "random", "consumer", "ants"]),
        "headroom": mooring.headroom(PROBLEM, made),
        "report": mooring.simulate(PROBLEM, made, seconds=2),
    }


def test_what_shows_itself_is_a_table_with_every_name_escaped() -> None:
    for name, result in results().items():
        tags = Tags(result._repr_html_())
        assert tags.seen <= {"table", "caption", "tr", "th", "td", "p"}, name
        if name != "comparison":
            assert EVIL in " ".join(tags.text), name
        assert len(repr(result)) < 200


def test_long_tables_are_cut_and_say_so() -> None:
    streams = {f"s{k}": {"rate": 1} for k in range(300)}
    problem = {**PROBLEM, "streams": {**PROBLEM["streams"], **streams}}
    room = mooring.headroom(problem, {"f": "b", "g": "b"})
    assert "103 more" in room._repr_html_()
    assert len(room.to_pandas()) == 303


def test_frames_have_the_figures_of_the_result() -> None:
    pytest.importorskip("pandas")
    found = results()
    assert found["plan"].to_pandas()["site"].to_dict() == dict(found["plan"].placement.as_dict())
    table = found["comparison"].to_pandas()
    for policy, made in found["comparison"].plans.items():
        assert table.loc[policy, "feasible_ratio"] == made.metrics.feasible_ratio
        assert table.loc[policy, "headroom"] == made.metrics.headroom.factor
    assert found["headroom"].to_pandas().loc["all together", "factor"] == found["headroom"].factor
    assert found["report"].to_pandas().loc[EVIL, "tuples"] == found["report"].queries[EVIL].latency.tuples


def test_without_pandas_it_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for result in results().values():
        with pytest.raises(mooring.InputError, match=r"needs pandas, which is not installed.*pip install"):
            result.to_pandas()


def test_what_is_saved_is_what_the_command_line_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "problem.json").write_text(json.dumps(PROBLEM))
    found = results()
    saved = {name: result.save(tmp_path / f"{name}.json") for name, result in found.items()}
    commands = {
        "plan": ["plan"],
        "comparison": ["compare", "--policies", "rod,random,consumer,ants"],
        "headroom": ["headroom", "--placement", str(saved["plan"])],
        "report": ["simulate", "--placement", str(saved["plan"]), "--seconds", "2"],
    }
    for name, words in commands.items():
        assert main([words[0], str(tmp_path / "problem.json"), *words[1:], "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        ours = json.loads(saved[name].read_text())
        printed = printed["headroom"] if name == "headroom" else printed
        assert _untimed(ours) == _untimed({key: printed[key] for key in ours}), name
    assert mooring.evaluate(PROBLEM, saved["plan"]) == found["plan"].metrics
    with pytest.raises(mooring.InputError, match="cannot be written"):
        found["plan"].save(tmp_path / "missing" / "plan.json")


def _untimed(value: Any) -> Any:
    """Without how long planning took, which Python does not measure."""
    if isinstance(value, dict):
        return {key: _untimed(each) for key, each in value.items() if key != "plan_seconds"}
    return value


def test_figures_draw_every_value_in_the_house_style() -> None:
    for name, result in results().items():
        figure = result.figure()
        figure.draw_without_rendering()
        for axes in figure.axes:
            assert not axes.spines["top"].get_visible(), name
            assert not axes.spines["right"].get_visible(), name
    compared = results()["comparison"]
    ratios = compared.figure().axes[0]
    assert ratios.get_title() == "feasible ratio"
    drawn = [bar.get_width() for bar in ratios.patches]
    assert drawn == [made.metrics.feasible_ratio for made in compared.plans.values()]


def test_the_best_of_a_comparison_places_all_queries_and_survives_most() -> None:
    compared = results()["comparison"]
    ratios = {name: made.metrics.feasible_ratio for name, made in compared.plans.items()}
    assert compared[compared.best].metrics.feasible_ratio == max(ratios.values())
    assert list(compared) == ["rod", "random", "consumer", "ants"]


def cells() -> list[str]:
    return [cell for cell in NOTEBOOK.read_text().split("# %%") if not cell.startswith(" [markdown]")]


def test_the_example_notebook_runs_and_every_cell_shows_something_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__file__": str(NOTEBOOK), "__name__": "notebook"}
    shown = []
    for cell in cells():
        body = ast.parse(cell).body
        if body and isinstance(body[-1], ast.Expr) and not isinstance(body[-1].value, ast.Constant):
            exec(compile(ast.Module(body[:-1], []), str(NOTEBOOK), "exec"), names)  # noqa: S102
            shown.append(eval(compile(ast.Expression(body[-1].value), str(NOTEBOOK), "eval"), names))  # noqa: S307
        else:
            exec(compile(cell, str(NOTEBOOK), "exec"), names)  # noqa: S102
    assert len(shown) == len([cell for cell in cells() if cell.strip()])
    assert all(len(repr(each)) < 500 for each in shown)
    assert {"plan.json", "comparison.json", "report.json"} == {file.name for file in tmp_path.iterdir()}
