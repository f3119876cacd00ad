"""A problem from wherever FILE points: a problem file, or a project folder read by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mooring.cli.needs_spark import require_spark
from mooring.problem.problem import Problem

if TYPE_CHECKING:
    from mooring.spark.layout import Layout


def load_problem(path: Path) -> Problem:
    return read_source(path)[0]


def read_source(path: Path) -> tuple[Problem, Layout | None]:
    """The problem, and for a project folder also its pipeline cut into fragments."""
    if not path.is_dir():
        return Problem.load(path), None
    require_spark(file=path)
    from mooring.spark.project_run import read_project

    layout, problem = read_project(path)
    return problem, layout


def source_notes(layout: Layout | None) -> list[str]:
    """Where a project's statistics come from; a problem file states its own."""
    if layout is None:
        return []
    from mooring.spark.statistics_used import statistics_notes

    return statistics_notes(layout)
