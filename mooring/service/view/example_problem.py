"""The example problem that every planning desk has at hand."""

from __future__ import annotations

from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.yaml12 import parse_yaml
from mooring.model.problem.schema import problem_from_data
from mooring.service.view.page_sources import page_file

EXAMPLE_FILE = "example.yaml"
"""Installed with the page's files, beside them; the same as `examples/network_monitoring.yaml`."""


def example_problem() -> Problem:
    return problem_from_data(parse_yaml(page_file(EXAMPLE_FILE)))
