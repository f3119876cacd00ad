"""What a command asks of Spark in some cases only; each function loads what it needs when it is called.

`plan` takes a problem file or a project folder, `traces` counts here or on a cluster: most of the time they
need no Spark, which may not even be installed and takes a second to load. Whatever needs Spark in any case
imports the modules themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mooring.atomic_files import write_whole
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.progress import Report

if TYPE_CHECKING:
    from mooring.spark.pipeline.layout import Layout
    from mooring.traces.summary import TraceRequest, TraceSummary


def read_project_folder(folder: Path) -> tuple[Layout, Problem]:
    """A project's pipeline, cut into fragments, and the problem it poses."""
    from mooring.spark.runs.project_run import read_project

    return read_project(folder)


def record_folder(layout: Layout) -> Path | None:
    """Where the journal of a project is; None if it never ran."""
    from mooring.spark.storage.owned_folder import newest_owned

    owned = newest_owned(layout.project.settings.storage)
    return None if owned is None else owned.folder


def measured_problem(layout: Layout, problem: Problem) -> Problem | None:
    """A project's problem at the rates and costs of its last run; None where no run measured anything."""
    from mooring.spark.runs.record.operation_statistics import read_operation
    from mooring.spark.runs.run_files import RunFiles

    figures = RunFiles(layout.project.work_folder).read_statistics()
    return read_operation(layout, problem, figures) if figures else None


def statistics_notes(layout: Layout) -> list[str]:
    """Where a project's statistics come from, in words."""
    from mooring.spark.pipeline import statistics_used

    return statistics_used.statistics_notes(layout)


def assumed_sentence(layout: Layout) -> str | None:
    """That a project's plan rests on assumptions; None where everything was stated or measured."""
    from mooring.spark.pipeline import statistics_used

    return statistics_used.assumed_sentence(layout)


def view_forecasts(layout: Layout, problem: Problem, placement: Placement) -> dict[str, dict[str, object]]:
    """How long the refreshes of a project's materialized views fit their interval, by view."""
    from mooring.spark.views import forecast

    found = forecast.view_forecasts(layout, problem, placement)
    return {name: each.as_json() for name, each in found.items()}


def power_cut_notes(layout: Layout) -> dict[str, str]:
    """What survives a power cut, by site."""
    from mooring.spark.pipeline import site_options

    return site_options.power_cut_notes(layout.project)


def project_notes(layout: Layout) -> list[str]:
    """What a reader of `mooring check` should know before a run, in words."""
    from mooring.spark.connectors.formats import delivery_note
    from mooring.spark.definitions.foreign_tables import lent_notes
    from mooring.spark.pipeline.path_notes import path_notes
    from mooring.spark.pipeline.site_options import jar_notes
    from mooring.spark.tables.costly_tables import costly_tables_note
    from mooring.spark.views.static_reads import update_notes

    deliveries = [delivery_note(sink.name, sink.sink_format) for sink in layout.pipeline.sinks]
    said = [note for note in deliveries if note is not None]
    said += path_notes(layout) + lent_notes(layout.pipeline.lent)
    return jar_notes(layout.project) + said + costly_tables_note(layout) + update_notes(layout)


def draw_graph(layout: Layout) -> Path:
    """A project's graph as a picture, among Mooring's own files."""
    from mooring.spark.runs.record.graph_drawing import graph_svg

    file = layout.project.work_folder / "graph.svg"
    write_whole(file, graph_svg(layout))
    return file


def summarise_traces_on_spark(master: str | None, request: TraceRequest, report: Report) -> TraceSummary:
    """The rates of traces, counted where they lie; None: the default master."""
    from mooring.spark.jobs.batch_session import DEFAULT_MASTER, batch_session
    from mooring.spark.jobs.trace_jobs import summarise_on_spark

    with batch_session(master or DEFAULT_MASTER) as session:
        return summarise_on_spark(session, request, report)
