"""`mooring.yml` held against the pipeline: every name in it is one of the pipeline's."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.errors import Gathered, InputError
from mooring.model.problem.reading.fields import nearest
from mooring.spark.pipeline.pipeline import Pipeline
from mooring.spark.pipeline.project import Project


def check_settings(project: Project, pipeline: Pipeline) -> None:
    """Raises all that is wrong."""
    settings, gather = project.settings, Gathered()
    everything = [*pipeline.datasets, *pipeline.flows]
    tables = [name for name, dataset in pipeline.datasets.items() if dataset.kind == "table"]
    views = [name for name, dataset in pipeline.datasets.items() if dataset.kind == "materialized"]
    view = "a materialized view (refresh_s is of views) of the pipeline"
    written = [flow.dataset for flow in pipeline.flows.values()]
    entering = [flow.dataset for flow in pipeline.flows.values() if flow.outside]
    reads = {f"queries.{name}.reads": query.reads for name, query in settings.queries.items()}
    for given, known, expected in (
        (_fields("cuts", settings.cuts), everything, "a dataset or flow of the pipeline"),
        (_fields("pins", settings.pins), everything, "a dataset or flow of the pipeline"),
        (_fields("statistics", settings.statistics), everything, "a dataset or flow of the pipeline"),
        (_fields("tables", settings.tables), tables, "a streaming table of the pipeline"),
        (_fields("tables", settings.refreshes), views, view),
        (_fields("streams", settings.streams), entering, "a dataset whose flow reads an outside source"),
        (reads, written, "a dataset or sink of the pipeline"),
    ):
        for field, name in given.items():
            if name not in known:
                closest = nearest(name, known)
                gather.note(
                    InputError(
                        f"found {name!r}, expected {expected}",
                        file=project.settings_file,
                        field=field,
                        remedy=f"did you mean {closest!r}?" if closest else None,
                    )
                )
    for name in pipeline.static & settings.tables.keys():
        if not settings.tables[name].for_good:
            readers = ", ".join(flow.name for flow in pipeline.flows.values() if name in flow.static)
            gather.note(
                InputError(
                    f"found keep: read for {name!r}, which {readers} reads as it stands",
                    file=project.settings_file,
                    field=f"tables.{name}.keep",
                    remedy="keep its rows (all), or those of some time (such as 7d)",
                )
            )
    gather.raise_any()


def _fields(section: str, names: Iterable[str]) -> dict[str, str]:
    return {f"{section}.{name}": name for name in names}
