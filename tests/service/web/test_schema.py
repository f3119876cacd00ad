"""Whatever is sent, the service answers as its OpenAPI document says, and never with a failure of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from mooring.model.problem.problem import Problem
from mooring.service.view.planning_desk import PlanningDesk
from mooring.service.web.desk_service import desk_app
from tests.service.served import TOKEN, Served, serving, serving_run
from tests.service.simulated_project import PROBLEM, SimulatedProject

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


def hammered(served: Served, examples: int) -> int:
    """Every operation of the document with generated requests; the number of requests made. Events have no
    end, and are asked for elsewhere.
    """
    schema = schemathesis.openapi.from_url(f"{served.url}api/v1/openapi.json").exclude(path="/api/v1/events")
    made = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def probe(case: Any) -> None:
            nonlocal made
            made += 1
            case.call_and_validate(checks=CHECKS, headers={"authorization": f"Bearer {TOKEN}"})

        probe()
    return made


def test_a_run_answers_as_its_document_says(tmp_path: Path) -> None:
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as served:
        served.until("/api/v1/picture", lambda picture: picture.get("proposal"))
        assert hammered(served, examples=15) > 100


def test_a_desk_answers_as_its_document_says() -> None:
    with serving(lambda rules: desk_app(PlanningDesk("small", PROBLEM), rules)) as served:
        assert hammered(served, examples=15) > 30


@pytest.mark.soak
def test_a_larger_desk_answers_as_its_document_says() -> None:
    problem = Problem.load("examples/forest.yaml")
    with serving(lambda rules: desk_app(PlanningDesk("forest", problem), rules)) as served:
        hammered(served, examples=300)
