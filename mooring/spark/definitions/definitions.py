"""The definitions of a Spark Declarative Pipelines project: datasets and flows, from Python and SQL files.

The files are run as `spark-pipelines` runs them, against one session, with a registry of our own that only
collects. They are run again for every session, since a flow's function is bound to the session its module was
given.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from pyspark.pipelines.block_session_mutations import block_session_mutations
from pyspark.pipelines.cli import PipelineSpec
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import DataFrame, SparkSession

from mooring.errors import Gathered, InputError, UnsupportedError
from mooring.spark.definitions.foreign_features import (
    foreign_to_spark,
    refused_auto_cdc,
    refused_expectations,
)
from mooring.spark.definitions.foreign_tables import LentTable, Neighbours
from mooring.spark.definitions.names import PipelineNames
from mooring.spark.definitions.project_modules import ProjectModules
from mooring.spark.definitions.running_session import active_session
from mooring.spark.definitions.session_names import use_names
from mooring.spark.definitions.sql_definitions import SqlStatement, parse_statements
from mooring.spark.definitions.sql_names import with_database
from mooring.spark.definitions.table_arguments import NOTHING_SAID, TableArguments, arguments_of
from mooring.spark.definitions.working_folder import inside
from mooring.spark.sites.endpoint import first_line

DatasetKind = Literal["table", "view", "sink", "materialized"]
"""A streaming table, a temporary view, a sink, or a materialized view."""
KIND_WORDS: dict[str, str] = {
    "table": "table",
    "view": "temporary view",
    "sink": "sink",
    "materialized": "materialized view",
}
"""For people."""
_KINDS: dict[str, DatasetKind] = {"table": "table", "view": "view", "materialized view": "materialized"}
"""Of the datasets that SQL statements create."""


@dataclass(frozen=True)
class Place:
    """Where in the project something is defined."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Dataset:
    name: str
    kind: DatasetKind
    place: Place
    sink_format: str = ""
    sink_options: dict[str, str] = field(default_factory=dict)
    arguments: TableArguments = NOTHING_SAID
    """Of tables and materialized views: what is said of them beside their query."""


@dataclass(frozen=True)
class FlowDefinition:
    """One flow into a dataset; `build` makes its DataFrame in the session the definitions were loaded for."""

    name: str
    target: str
    build: Callable[[], DataFrame]
    place: Place
    spark_conf: dict[str, str] = field(default_factory=dict)


@dataclass
class Definitions:
    """Everything one project defines, in one session."""

    names: PipelineNames = field(default_factory=PipelineNames)
    datasets: dict[str, Dataset] = field(default_factory=dict)
    flows: dict[str, FlowDefinition] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """Datasets that cannot be placed; whoever reads them is not to blame."""
    neighbours: Neighbours | None = None
    lent: dict[str, LentTable] = field(default_factory=dict)
    """Tables of other pipelines that flows read, as far as they are known."""

    def found(self, written: str) -> str | None:
        """The dataset that a name stands for, in whatever parts and case; None: none of this pipeline's."""
        return self.names.found(written, self.datasets)

    def standing(self, written: str) -> str | None:
        """The same, and tables of other pipelines: what stands in a session under a name of its own."""
        return self.found(written) or self.names.found(written, self.lent)

    def borrow(self, written: str) -> LentTable | None:
        """A table that was not known, from another pipeline; None if none has it."""
        key = self.names.key(written)
        if self.neighbours is None or key in self.lent:
            return None
        if (table := self.neighbours.find(written)) is not None:
            self.lent[key] = table
        return table

    def add_dataset(self, dataset: Dataset) -> None:
        if (known := self.found(dataset.name)) is not None:
            other = self.datasets[known]
            raise InputError(
                f"the dataset {dataset.name!r} is defined twice: at {other.place} and at {dataset.place}",
                file=str(dataset.place),
                remedy="rename one of them",
            )
        self.datasets[dataset.name] = dataset

    def add_flow(self, flow: FlowDefinition) -> None:
        if (other := self.flows.get(flow.name)) is not None:
            raise InputError(
                f"the flow {flow.name!r} is defined twice: at {other.place} and at {flow.place}",
                file=str(flow.place),
                remedy="give one of them another name",
            )
        self.flows[flow.name] = flow


def load_definitions(
    project: Path,
    spec: PipelineSpec,
    session: SparkSession,
    gather: Gathered | None = None,
    *,
    skip: Sequence[str] = (),
) -> Definitions:
    """Run every definition file of the project against `session` and collect what they define, but for what
    is to be skipped: datasets, flows, or files. What is wrong is raised at the end, all of it, or left in
    `gather`.
    """
    project, found = project.resolve(), gather or Gathered()
    skipping = Skipping(PipelineNames.of(spec), skip)
    registry = _Collector(project, spec, session, found, skipping)
    files = [
        file for file in definition_files(project, spec) if not skipping.wants(str(file.relative_to(project)))
    ]
    modules = ProjectModules(project, list(dict.fromkeys([project, *(file.parent for file in files)])))
    with (
        inside(project),
        modules.installed(),
        active_session(session),
        graph_element_registration_context(registry),
    ):
        for file in files:
            with found.noting():
                if file.suffix == ".py":
                    _run_python(file, project, session, modules)
                elif file.suffix == ".sql":
                    registry.register_sql(file.read_text(encoding="utf-8"), file.relative_to(project))
                else:
                    raise UnsupportedError(
                        f"found the file type {file.suffix!r} among the definitions, expected .py or .sql",
                        file=file,
                        remedy="narrow `libraries` in the pipeline spec",
                    )
    registry.definitions.neighbours = Neighbours(project, spec)
    use_names(session, registry.definitions.standing, spec.configuration)
    registry.settle_targets()
    with found.noting():
        skipping.refuse_unknown()
    if gather is None:
        found.raise_any()
    return registry.definitions


def definition_files(project: Path, spec: PipelineSpec) -> list[Path]:
    files = {
        path
        for library in spec.libraries
        for path in project.glob(library.include)
        if path.is_file() and "__pycache__" not in path.parts
    }
    if not files:
        raise InputError(
            "found no definition files",
            file=project,
            remedy="list them under `libraries` in spark-pipeline.yml, e.g. transformations/**",
        )
    return sorted(files)


def sources_digest(project: Path, spec: PipelineSpec) -> str:
    """Changes with every change to a definition file, or to a module beside one, be it only a comment."""
    files = definition_files(project.resolve(), spec)
    beside = {path for file in files for path in file.parent.rglob("*.py")}
    digest = hashlib.sha256()
    for file in sorted({*files, *beside, *project.resolve().glob("*.py")}):
        digest.update(f"{file}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


class _Collector(GraphElementRegistry):
    def __init__(
        self, project: Path, spec: PipelineSpec, session: SparkSession, gather: Gathered, skipping: Skipping
    ) -> None:
        self.definitions = Definitions(PipelineNames.of(spec))
        self._key = self.definitions.names.key
        self._variables = dict(spec.configuration)
        self._project = project
        self._session = session
        self._gather = gather
        self._skipping = skipping

    @contextlib.contextmanager
    def _noting(self, dataset: str) -> Iterator[None]:
        """Note what is wrong with it and go on with the file."""
        before = len(self._gather.errors)
        with self._gather.noting():
            yield
        if len(self._gather.errors) > before:
            self.definitions.refused.add(self._key(dataset))

    def _is_skipped(self, target: str, flow: str | None = None) -> bool:
        """Whether the dataset, or just this flow into it, is to be left out."""
        if self._skipping.wants(target):
            self.definitions.refused.add(self._key(target))
            return True
        return flow is not None and self._skipping.wants_flow(flow, target)

    def settle_targets(self) -> None:
        """Every flow writes into a dataset, which may have been defined after it. A table all of whose flows
        are skipped is skipped.
        """
        fed = {flow.target for flow in self.definitions.flows.values()}
        self.definitions.refused |= self._skipping.unfed - fed
        for flow in list(self.definitions.flows.values()):
            if (target := self.definitions.found(flow.target)) is not None:
                self.definitions.flows[flow.name] = replace(flow, target=target)
                continue
            del self.definitions.flows[flow.name]
            if flow.target not in self.definitions.refused:
                self._gather.note(
                    InputError(
                        f"the flow {flow.name!r} writes into {flow.target!r}, which is not defined",
                        file=str(flow.place),
                        remedy=f"define it, for example with dp.create_streaming_table({flow.target!r})",
                    )
                )

    def register_output(self, output: Output) -> None:
        with self._noting(output.name):
            if not self._is_skipped(output.name):
                self._register_output(output)

    def _register_output(self, output: Output) -> None:
        place, name = self._place(output.source_code_location), self._key(output.name)
        if isinstance(output, Sink):
            dataset = Dataset(name, "sink", place, output.format, dict(output.options))
        elif isinstance(output, TemporaryView):
            dataset = Dataset(name, "view", place)
        elif isinstance(output, StreamingTable):
            dataset = Dataset(name, "table", place, arguments=arguments_of(output))
        elif isinstance(output, MaterializedView):
            dataset = Dataset(name, "materialized", place, arguments=arguments_of(output))
        else:
            raise UnsupportedError(f"cannot place {type(output).__name__} {output.name!r}", file=str(place))
        self.definitions.add_dataset(dataset)

    def register_flow(self, flow: Flow) -> None:
        if self._is_skipped(flow.target, flow.name):
            return
        place = self._place(flow.source_code_location)
        conf = {key: str(value) for key, value in flow.spark_conf.items()}
        name, target = self._key(flow.name), self._key(flow.target)
        build = partial(_built_inside, self._project, flow.func)
        self.definitions.add_flow(FlowDefinition(name, target, build, place, conf))

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        name = flow.name or flow.target
        if not self._is_skipped(flow.target, name):
            with self._noting(flow.target):
                raise refused_auto_cdc(name, str(self._place(flow.source_code_location)))

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        for statement in parse_statements(sql_text, str(file_path), self._variables, self._gather):
            if self._is_skipped(statement.target, statement.name):
                continue
            with self._noting(statement.target):
                self._register_statement(statement, Place(str(file_path), statement.line))

    def _register_statement(self, statement: SqlStatement, place: Place) -> None:
        if statement.kind == "auto cdc":
            raise refused_auto_cdc(statement.name, str(place))
        if statement.kind == "expectations":
            raise refused_expectations(statement.name, str(place))
        if (kind := _KINDS.get(statement.kind)) is not None:
            self.definitions.add_dataset(
                Dataset(self._key(statement.name), kind, place, arguments=statement.arguments)
            )
        if statement.query is not None:
            build = partial(self._sql, statement.query, statement.database)
            name, target = self._key(statement.name), self._key(statement.target)
            self.definitions.add_flow(FlowDefinition(name, target, build, place, statement.settings))

    def _sql(self, query: str, database: str) -> DataFrame:
        """A query of a file, where `USE` may have said in which database its tables are."""
        if database:
            query = with_database(query, database, lambda name: self.definitions.found(name) is not None)
        return self._session.sql(query)

    def _place(self, location: SourceCodeLocation) -> Place:
        file = Path(location.filename)
        shown = file.relative_to(self._project) if file.is_relative_to(self._project) else file
        return Place(str(shown), location.line_number)


def _built_inside(project: Path, function: Callable[[], DataFrame]) -> DataFrame:
    with inside(project):
        return function()


def _run_python(file: Path, project: Path, session: SparkSession, modules: ProjectModules) -> None:
    found = importlib.util.spec_from_file_location(file.stem, file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    module.__dict__["spark"] = session
    modules.give_imports(module)
    try:
        with _mutations_blocked():
            found.loader.exec_module(module)
    except InputError:
        raise
    except SystemExit as ending:  # or the command would end with it, as if all were well
        raise InputError(
            "ends the process (sys.exit)",
            file=str(place_of_failure(ending, file, project)),
            remedy="define datasets or raise an error instead",
        ) from ending
    except Exception as failure:
        place = place_of_failure(failure, file, project)
        if (foreign := foreign_to_spark(failure, place.file)) is not None:
            raise UnsupportedError(foreign[0], file=str(place), remedy=foreign[1]) from failure
        cause = f"{type(failure).__name__}: {first_line(failure)}"
        raise InputError(f"cannot be run: {cause}", file=str(place)) from failure


def place_of_failure(failure: BaseException, file: Path, project: Path) -> Place:
    """The innermost line of `file` on the failure's stack."""
    shown = str(file.relative_to(project)) if file.is_relative_to(project) else str(file)
    return Place(shown, line_of_failure(failure, str(file)) or getattr(failure, "lineno", None))


def line_of_failure(failure: BaseException, file: str) -> int | None:
    """The innermost line on the failure's stack of a file, named as from the project's folder."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(failure.__traceback__)
        if frame.filename == file or frame.filename.endswith(f"{os.sep}{file}")
    ]
    return lines[-1] if lines else None


@contextlib.contextmanager
def _mutations_blocked() -> Iterator[None]:
    """Pipelines may not touch the session; Spark's guard replaces methods for all threads, so only one uses
    it.
    """
    if threading.current_thread() is threading.main_thread():
        with block_session_mutations():
            yield
    else:  # the same files passed the guard when the graph was read
        yield


class Skipping:
    """What `skip` in `mooring.yml` leaves out: datasets, flows or whole definition files. It is asked for
    every definition, and reports in the end which names nothing had.
    """

    def __init__(self, names: PipelineNames, skip: Sequence[str]) -> None:
        self._key = names.key
        self._skip = {name: names.key(name).casefold() for name in skip}
        self._met: set[str] = set()
        self.unfed: set[str] = set()
        """Tables into which a flow would go that is left out."""

    def wants(self, written: str) -> bool:
        """Whether the dataset or file of this name is to be left out."""
        wanted = {name for name, key in self._skip.items() if self._key(written).casefold() == key}
        self._met |= wanted
        return bool(wanted)

    def wants_flow(self, flow: str, target: str) -> bool:
        if not self.wants(flow):
            return False
        self.unfed.add(self._key(target))
        return True

    def refuse_unknown(self) -> None:
        gather = Gathered()
        for name in self._skip.keys() - self._met:
            gather.note(
                InputError(
                    f"found {name!r}, expected a dataset, a flow or a definition file of the pipeline",
                    file="mooring.yml",
                    field="skip",
                )
            )
        gather.raise_any()
