"""A problem from wherever FILE points: a problem file, or a project folder read by Spark.

What needs Spark is imported by the functions that need it: Spark may not be installed, and takes a second to
load.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mooring.cli.input.parsing import Parser
from mooring.controller.journal import Journal
from mooring.errors import InputError
from mooring.model.evaluation.headroom_sentence import headroom_sentences
from mooring.model.problem.problem import Problem
from mooring.spark.needs_spark import require_spark

if TYPE_CHECKING:
    from mooring.planning import Plan
    from mooring.spark.pipeline.layout import Layout


def load_problem(path: Path, *, measured: bool = False) -> Problem:
    """`measured`: a project's at the rates and costs that runs measured, whatever is stated."""
    return load_source(path, measured=measured)[0]


def load_source(path: Path, *, measured: bool = False) -> tuple[Problem, Layout | None]:
    """The same, and for a project folder also its pipeline cut into fragments."""
    problem, layout = read_source(path)
    if not measured:
        return problem, layout
    if layout is None:
        raise InputError(
            "found a problem file, expected a project that has run", file=path, field="--measured"
        )
    from mooring.spark.pipeline.pipeline_problem import as_measured

    if not layout.learnt.lines:
        raise InputError(
            "no run of this project has measured anything yet",
            file=path,
            field="--measured",
            remedy="run it for a minute or longer (`mooring run`)",
        )
    return as_measured(layout)


def add_measured(parser: Parser) -> None:
    parser.add_argument(
        "--measured",
        action="store_true",
        help="for a project: use the rates and costs that runs measured, even where others are stated",
    )


def read_source(path: Path, *, reread: bool = False) -> tuple[Problem, Layout | None]:
    """The problem, and for a project folder also its pipeline cut into fragments. `reread`: by Spark, though
    nothing of it has changed.
    """
    if not is_project(path):
        return Problem.load(path), None
    require_spark(file=path)
    from mooring.spark.runs.project_run import read_project

    layout, problem = read_project(path, reread=reread)
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
    if layout is None:
        return []
    from mooring.spark.pipeline.statistics_used import statistics_notes

    return statistics_notes(layout)


def left_sites(layout: Layout | None) -> dict[str, str]:
    """Sites of a project that are kept empty, and who asked for it."""
    if layout is None:
        return {}
    from mooring.spark.storage.owned_folder import newest_owned

    owned = newest_owned(layout.project.settings.storage)
    return {} if owned is None else Journal(owned.folder, lambda: 0.0).left_sites()


def assumed_sentence(layout: Layout | None) -> str | None:
    """That a project's plan rests on assumptions; None where everything was stated or measured."""
    if layout is None:
        return None
    from mooring.spark.pipeline import statistics_used

    return statistics_used.assumed_sentence(layout)


def source_sentences(layout: Layout | None, made: Plan) -> list[str]:
    """Why a plan is as it is. Where a project's costs or rates are assumed, that is said instead of how far
    its rates could grow.
    """
    given = list(made.sentences)
    assumed = assumed_sentence(layout)
    if assumed is None:
        return given
    room = headroom_sentences(made.metrics)
    return [*(line for line in given if line not in room), assumed]
