"""The graph of a pipeline as Spark last understood it, used again while nothing that it is made of changes.

Reading a graph starts Java and analyses every flow: ten seconds and more, for the same answer as before. Kept
graphs are for commands that look at a project; a run always reads it again. What files cannot tell is not
kept: columns that Spark infers from data, tables of other pipelines, catalogs of existing endpoints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from pyspark.sql.types import StructType

from mooring import __version__
from mooring.atomic_files import write_whole
from mooring.spark.definitions.definitions import Dataset, Place, sources_digest
from mooring.spark.definitions.table_arguments import TableArguments
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.project import Project

_KINDS: dict[str, Any] = {
    each.__name__: each for each in (Pipeline, Dataset, FlowNode, Place, TableArguments)
}
_INFERS = "schemainference"
"""In the name of the setting with which sources infer their columns from data."""


class Kept(NamedTuple):
    pipeline: Pipeline
    read_at: str
    """When Spark read it, in ISO 8601 and UTC."""


@dataclass(frozen=True)
class KeptGraph:
    """A file among Mooring's own."""

    project: Project

    @property
    def file(self) -> Path:
        return self.project.work_folder / "graph.json"

    def read(self) -> Kept | None:
        """None where there is none, or it is of other files."""
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))
            if found["key"] != self.key:
                return None
            return Kept(_decoded(found["pipeline"]), str(found["read_at"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None  # damaged, or of another version

    def keep(self, pipeline: Pipeline) -> None:
        """To be asked for its key before the graph is read: files may change meanwhile."""
        at, key = datetime.now(UTC).isoformat(timespec="seconds"), self.key
        try:
            graph = _encoded(pipeline) if self._tells_all(pipeline) else None
        except TypeError:
            graph = None
        if graph is None:
            self.file.unlink(missing_ok=True)
        else:
            write_whole(self.file, json.dumps({"key": key, "read_at": at, "pipeline": graph}))

    def _tells_all(self, pipeline: Pipeline) -> bool:
        settings = [*self.project.spec.configuration]
        settings += [name for flow in pipeline.flows.values() for name in flow.spark_conf]
        return (
            all(site.connect is None for site in self.project.settings.sites)
            and not pipeline.lent
            and not any(flow.unobserved for flow in pipeline.flows.values())
            and not any(_INFERS in name.lower() for name in settings)
        )

    @cached_property
    def key(self) -> str:
        """Of everything that the graph is made of."""
        project, settings = self.project, self.project.settings
        parts = (
            *(__version__, pyspark.__version__, str(project.spec_file), str(project.run_from)),
            hashlib.sha256(project.spec_file.read_bytes()).hexdigest(),
            sources_digest(project.folder, project.spec),
            *(repr(settings.skip), repr(settings.jars), repr(settings.packages)),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _encoded(value: Any) -> Any:
    """Values of the graph as JSON, with the names of their classes."""
    if isinstance(value, StructType):
        return {"schema": value.jsonValue()}
    if is_dataclass(value):
        own = {field.name: _encoded(getattr(value, field.name)) for field in fields(value)}
        return {"of": type(value).__name__, "fields": own}
    if isinstance(value, Mapping):
        return {"map": [[key, _encoded(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return [_encoded(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a graph holds {type(value).__name__}, which is not kept")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    if not isinstance(value, dict):
        return value
    if "schema" in value:
        return StructType.fromJson(value["schema"])
    if "map" in value:
        return {key: _decoded(item) for key, item in value["map"]}
    return _KINDS[value["of"]](**{name: _decoded(item) for name, item in value["fields"].items()})
