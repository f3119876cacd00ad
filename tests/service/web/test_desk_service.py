"""The planning desk over HTTP: without Spark, and never further from the command line than its words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.algorithms.catalogue import POLICIES
from mooring.cli.main import main
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from mooring.service.view.page_sources import page_file
from mooring.service.view.planning_desk import EXAMPLE_FILE, PlanningDesk
from mooring.service.web.desk_service import desk_app
from tests.service.served import TOKEN, Served, serving

EXAMPLE = Path("examples/forest.yaml")


@pytest.fixture(scope="module")
def desk() -> Iterator[Served]:
    problem = Problem.load(EXAMPLE)
    with serving(lambda rules: desk_app(PlanningDesk("forest", problem), rules)) as served:
        yield served


def test_a_plan_is_that_of_the_command_line(desk: Served) -> None:
    status, _, made = desk.ask("POST", "/api/v1/desk/plan", {"policy": "llf"}, token=TOKEN)
    assert status == 200
    assert made["placement"] == plan(Problem.load(EXAMPLE), "llf").placement.as_dict()


def test_a_plan_to_keep_has_the_keys_of_the_command_line(
    desk: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, made = desk.ask("POST", "/api/v1/desk/document", {"policy": "llf"}, token=TOKEN)
    assert status == 200
    assert main(["plan", str(EXAMPLE), "--policy", "llf", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert made.keys() == printed.keys()
    assert (made["problem"], made["bound"]) == (printed["problem"], printed["bound"])


def test_the_example_is_at_hand(desk: Served) -> None:
    shown = page_file(EXAMPLE_FILE)
    assert shown == Path("examples/network_monitoring.yaml").read_text()
    assert set(desk.get("/api/v1/example")["sites"]) == {"berkeley", "mit", "cern"}
    trial = {"example": True, "pins": {"by_port": "cern"}}
    status, _, made = desk.ask("POST", "/api/v1/desk/plan", trial, token=TOKEN)
    assert status == 200, made
    assert {site for name, site in made["placement"].items() if name.startswith("by_port")} == {"cern"}
    ways = {(each["from"], each["to"]): each["latency_ms"] for each in made["picture"]["channels"]}
    assert max(ways.values()) >= 71.0 + 5.0


def test_other_rates_and_pins_change_the_plan(desk: Served) -> None:
    problem = Problem.load(EXAMPLE)
    stream, operator, site = problem.streams[0].name, problem.operators[0].name, problem.sites[-1].name
    trial = {"rates": {stream: 5.0}, "pins": {operator: site}}
    status, _, made = desk.ask("POST", "/api/v1/desk/plan", trial, token=TOKEN)
    assert status == 200, made
    assert made["placement"][operator] == site
    rates = {each["name"]: each["rate"] for each in made["picture"]["streams"]}
    assert rates[stream] == 5.0


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        ({"policy": "nobody"}, "nobody"),
        ({"policy": "own_policy:FewSites"}, "only a command line or Python may name a module"),
        ({"rates": {"none": 1}}, "a stream"),
        ({"rates": {"s1": -1}}, "expected 0 to"),
        ({"pins": {"o1_1": "nowhere"}}, "a site"),
        ({"seed": -1}, "expected 0 to"),
        ({"settings": {"no": "such"}}, "no"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_bad_trials_are_refused_in_words(desk: Served, trial: dict[str, object], said: str) -> None:
    status, _, document = desk.ask("POST", "/api/v1/desk/plan", trial, token=TOKEN)
    assert status == 400
    assert said in str(document["error"])


def test_policies_are_compared(desk: Served) -> None:
    body = {"policies": ["rod", "random", "overlay"]}
    status, _, found = desk.ask("POST", "/api/v1/desk/compare", body, token=TOKEN)
    assert status == 200
    assert found["policies"]["rod"]["metrics"]["feasible_ratio"] > 0.5
    assert "refused" in found["policies"]["overlay"]


def test_a_slice_runs_from_axis_to_axis(desk: Served) -> None:
    cut = desk.ask("POST", "/api/v1/desk/slice", {"first": "s1", "second": "s2"}, token=TOKEN)[2]
    points = [point for edge in cut["edges"] for point in edge["points"]]
    assert points[0][0] == 0.0
    assert points[-1][1] == pytest.approx(0.0, abs=1e-6)
    assert desk.ask("POST", "/api/v1/desk/slice", {"first": "s1", "second": "s1"}, token=TOKEN)[0] == 400


def test_the_desk_needs_no_spark() -> None:
    """Everything that serving a problem file loads, in a process where no part of Spark can be imported."""
    code = (
        "import sys\n"
        "for name in ('pyspark', 'grpc', 'pandas', 'pyarrow', 'sqlglot'): sys.modules[name] = None\n"
        "import mooring.cli.verbs.serve, mooring.service.web.desk_service\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_without_serve_nothing_of_the_service_is_loaded() -> None:
    code = (
        "import sys, mooring.cli.verbs.run\n"
        "PARTS = 'starlette', 'uvicorn', 'prometheus_client', 'mooring.service.web'\n"
        "loaded = [m for m in sys.modules if m.startswith(PARTS)]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_the_policies_that_the_page_compares_are_in_the_catalogue() -> None:
    script = page_file("desk.js")
    (listed,) = re.findall(r"^const COMPARED = (\[.*\]);$", script, re.MULTILINE)
    assert set(json.loads(listed)) <= set(POLICIES)
