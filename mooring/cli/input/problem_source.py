"""A problem from wherever FILE points: a problem file, or a project folder read by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mooring.cli.input.needs_spark import require_spark
from mooring.cli.input.parsing import Parser
from mooring.controller.journal import Journal
from mooring.errors import InputError
from mooring.model.evaluation.headroom_sentence import headroom_sentences
from mooring.model.problem.problem import Problem
from mooring.spark.on_demand import (
    assumed_sentence,
    measured_problem,
    read_project_folder,
    record_folder,
    statistics_notes,
)

if TYPE_CHECKING:
    from mooring.planning import Plan
    from mooring.spark.pipeline.layout import Layout


def load_problem(path: Path, *, measured: bool = False) -> Problem:
    """`measured`: a project's at the rates and costs of its last run."""
    return load_source(path, measured=measured)[0]


def load_source(path: Path, *, measured: bool = False) -> tuple[Problem, Layout | None]:
    """The same, and for a project folder also its pipeline cut into fragments."""
    problem, layout = read_source(path)
    if not measured:
        return problem, layout
    if layout is None:
        raise InputError("found a problem file, expected a project that ran", file=path, field="--measured")
    at_work = measured_problem(layout, problem)
    if at_work is None:
        raise InputError(
            "no run of this project has measured anything yet",
            file=path,
            field="--measured",
            remedy="run it for a minute or longer (`mooring run`)",
        )
    return at_work, layout


def add_measured(parser: Parser) -> None:
    parser.add_argument(
        "--measured",
        action="store_true",
        help="of a project: at the rates and costs that its last run measured",
    )


def read_source(path: Path) -> tuple[Problem, Layout | None]:
    """The problem, and for a project folder also its pipeline cut into fragments."""
    if not is_project(path):
        return Problem.load(path), None
    require_spark(file=path)
    layout, problem = read_project_folder(path)
    return problem, layout


def is_project(path: Path) -> bool:
    """Whether a folder, or the spec of a pipeline, is given rather than a problem file."""
    return path.is_dir() or is_pipeline_spec(path)


def is_pipeline_spec(path: Path) -> bool:
    """Whether the file stands for a project."""
    if path.suffix not in (".yml", ".yaml") or not path.is_file():
        return False
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    keys = {line.partition(":")[0] for line in lines if line[:1].isalpha()}
    return {"name", "storage"} <= keys and "sites" not in keys


def source_notes(layout: Layout | None) -> list[str]:
    """Where a project's statistics come from; a problem file states its own."""
    return [] if layout is None else statistics_notes(layout)


def left_sites(layout: Layout | None) -> dict[str, str]:
    """Sites of a project that are kept empty, and who asked for it."""
    record = None if layout is None else record_folder(layout)
    return {} if record is None else Journal(record, lambda: 0.0).left_sites()


def source_sentences(layout: Layout | None, made: Plan) -> list[str]:
    """Why a plan is as it is. Where a project's costs or rates are assumed, that is said instead of how far
    its rates could grow.
    """
    given = list(made.explanation.sentences)
    assumed = None if layout is None else assumed_sentence(layout)
    if assumed is None:
        return given
    room = headroom_sentences(made.metrics)
    return [*(line for line in given if line not in room), assumed]
