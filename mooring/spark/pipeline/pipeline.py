"""The graph of a pipeline, read off its definitions: flows become operators, temporary views are folded away.

Flows are analysed by Spark itself, in one session, in an order found by trying: a flow is ready once
everything it reads is known. A dataset already analysed stands in that session as a temporary view over an
empty stream of its schema, so that `spark.readStream.table("x")`, `STREAM x` and `STREAM(x)` resolve as they
will when it runs; or over an empty table, for flows that read it as a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException
from pyspark.pipelines.cli import PipelineSpec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mooring.errors import Gathered, InputError
from mooring.model.problem.operator import MovesAs
from mooring.spark.definitions.definitions import (
    Dataset,
    Definitions,
    FlowDefinition,
    Place,
)
from mooring.spark.definitions.foreign_tables import LentTable
from mooring.spark.definitions.plan_reads import FoldedReads, PlanReads, folded, plan_of, reads_of
from mooring.spark.definitions.running_session import active_session
from mooring.spark.definitions.session_names import read_both_ways, view_at_rest
from mooring.spark.definitions.session_settings import shown_value
from mooring.spark.definitions.table_arguments import check_columns, check_format, stated_schema
from mooring.spark.pipeline.flow_refusals import (
    bad_flow,
    check_appends,
    refuse_wrong_kind,
    refused_lent_stream,
    refused_second_flow,
    stuck_flows,
)
from mooring.spark.pipeline.table_schema import checked_schema, merged_schema


@dataclass(frozen=True)
class FlowNode:
    """One operator of the graph: a flow into a streaming table or a sink, or the query of a materialized
    view.
    """

    name: str
    dataset: str
    inputs: tuple[str, ...]
    """Streaming tables and materialized views it reads as streams, through whatever temporary views."""
    views: tuple[str, ...]
    """Temporary views it reads, each after those it needs itself."""
    outside: bool
    """It reads a source outside the pipeline: a stream enters here."""
    stateful: bool
    schema: StructType
    fingerprint: str
    place: Place
    unplaced_fingerprint: str = ""
    """The same wherever its outside sources lie."""
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """Settings that it asks for, those of the temporary views it reads among them."""
    static: tuple[str, ...] = ()
    """Streaming tables and materialized views that it reads as they stand at one moment: all that a view is
    made of, or what a flow looks up beside its streams."""
    unobserved: bool = False
    """It reads something outside the pipeline as it stands, of which nobody says when it changes."""
    relative_paths: tuple[str, ...] = ()
    """Of what it reads outside the pipeline; where they start is for the run to say."""
    lent: tuple[str, ...] = ()
    """Tables of other pipelines that it reads as they stand."""
    joins: bool = False
    """It joins what it reads, and keeps state for it."""


@dataclass(frozen=True)
class Pipeline:
    name: str
    datasets: dict[str, Dataset]
    flows: dict[str, FlowNode]
    """In an order in which every flow comes after those it reads."""
    schemas: dict[str, StructType] = field(default_factory=dict)
    """Columns of each table."""
    left_out: tuple[str, ...] = ()
    """Datasets that `skip` names, and those that need them."""
    lent: Mapping[str, LentTable] = field(default_factory=dict)
    """Tables of other pipelines, by the names that they have here."""

    def writers(self, dataset: str) -> list[FlowNode]:
        return [flow for flow in self.flows.values() if flow.dataset == dataset]

    def readers(self, dataset: str) -> list[FlowNode]:
        """Flows that read it as a stream."""
        return [flow for flow in self.flows.values() if dataset in flow.inputs]

    def is_view(self, flow: str) -> bool:
        """Whether the flow is the query of a materialized view."""
        return self.datasets[self.flows[flow].dataset].kind == "materialized"

    def moves_as(self, flow: FlowNode) -> MovesAs:
        """Of which kind a move of the flow is."""
        if self.is_view(flow.name):
            return "view"
        return "join" if flow.joins else "stateful" if flow.stateful else "stateless"

    @property
    def static(self) -> set[str]:
        """Datasets that somebody reads as they stand, and whose rows therefore have to stay."""
        return {dataset for flow in self.flows.values() for dataset in flow.static}

    @property
    def sinks(self) -> list[Dataset]:
        return [dataset for dataset in self.datasets.values() if dataset.kind == "sink"]


def read_pipeline(
    spec: PipelineSpec,
    definitions: Definitions,
    session: SparkSession,
    empty: Path | str,
    gather: Gathered | None = None,
) -> Pipeline:
    """Analyse every flow; `empty` is an empty folder that the session's Spark can list. All that is wrong is
    raised at the end, with what `gather` holds already.
    """
    return _Analysis(spec, definitions, session, empty, gather or Gathered()).run()


class _Analysis:
    def __init__(
        self,
        spec: PipelineSpec,
        definitions: Definitions,
        session: SparkSession,
        empty: Path | str,
        gather: Gathered,
    ) -> None:
        self._gather = gather
        self._broken = set(definitions.refused)
        """Datasets that are not known because something about them is wrong, which is noted."""
        self._spec = spec
        self._definitions = definitions
        self._session = session
        self._empty = empty
        self._flows: dict[str, FlowNode] = {}
        self._views: dict[str, FoldedReads] = {}
        self._schemas: dict[str, StructType] = {}
        self._partial: dict[str, StructType] = {}
        """Columns of a table as far as its flows are known."""
        self._streamed: dict[str, bool] = {}
        """Dataset -> whether it stands in the session as a stream, or as a table at rest."""
        self._waiting: dict[str, str] = {}

    def run(self) -> Pipeline:
        pending = list(self._definitions.flows.values())
        with active_session(self._session):
            while pending:
                left = [flow for flow in pending if not self._examined(flow)]
                if len(left) == len(pending):
                    fed = {flow.target for flow in self._definitions.flows.values()}
                    self._gather.note(stuck_flows(left, self._waiting, fed))
                    self._broken |= {flow.target for flow in left} | set(self._waiting.values())
                    break
                pending = left
        self._check_outputs()
        self._gather.raise_any()
        return self._placed()

    def _placed(self) -> Pipeline:
        """Without what is skipped, and what needs it."""
        kept = {name: each for name, each in self._definitions.datasets.items() if name not in self._broken}
        self._flows = {name: flow for name, flow in self._flows.items() if flow.dataset in kept}
        broken, lent = tuple(sorted(self._broken)), self._definitions.lent
        return Pipeline(self._spec.name, kept, self._in_order(), self._schemas, broken, lent)

    def _examined(self, flow: FlowDefinition) -> bool:
        """False: it is to be tried again. What is wrong with it is noted, and neither it nor what reads it is
        tried again.
        """
        try:
            if self._analyse(flow):
                return True
            if self._waiting[flow.name] not in self._broken:
                return False
        except InputError as wrong:
            self._gather.note(wrong)
        self._broken.add(flow.target)
        return True

    def _analyse(self, flow: FlowDefinition) -> bool:
        """False: it reads something that is not known yet."""
        with flow_settings(self._session, flow.spark_conf, flow.name, str(flow.place)):
            try:
                return self._analyse_as_set(flow)
            finally:
                read_both_ways(self._session, frozenset())

    def _analyse_as_set(self, flow: FlowDefinition) -> bool:
        try:
            frame = self._built_somehow(flow)
            reads = reads_of(plan_of(frame))
            if (missing := self._first_unknown(reads)) is not None:
                self._waiting[flow.name] = missing
                return False
            ways = {(self._local_name(table.name), table.streaming) for table in reads.tables}
            streamed = {name for name, streaming in ways if streaming}
            for name in sorted(streamed & self._definitions.lent.keys()):
                raise refused_lent_stream(flow, name)
            changed = self._stand_in({name: name in streamed for name, _ in ways})
            both_ways = {name for name in streamed & self._schemas.keys() if (name, False) in ways}
            read_both_ways(self._session, both_ways)
            for name in both_ways:
                self._stub(name, streamed=False).createOrReplaceTempView(view_at_rest(name))
            if changed or both_ways:
                frame = self._built(flow)
            schema, streaming = frame.schema, frame.isStreaming
        except AnalysisException as failure:
            if (missing := self._pending_dataset_in(failure)) is not None:
                self._waiting[flow.name] = missing
                return False
            if self._borrowed(failure):
                return self._analyse_as_set(flow)
            raise bad_flow(flow, failure) from failure
        except InputError:
            raise
        except Exception as failure:
            raise bad_flow(flow, failure) from failure
        self._register(flow, frame, reads, schema, streaming)
        return True

    def _built_somehow(self, flow: FlowDefinition) -> DataFrame:
        """Before it is known how it reads each dataset: SQL is analysed at once, and a table that is read as
        it stands can be read in places where a stream cannot, and the other way round.
        """
        failures = []
        ways = [{"table"}, {"table", "materialized"}, set[str]()]  # what stands as streams
        if self._kind(flow.target) == "materialized":
            ways.reverse()
        for streamed in ways:
            self._stand_in({name: self._kind(name) in streamed for name in self._streamed})
            try:
                return self._built(flow)
            except AnalysisException as failure:
                if self._pending_dataset_in(failure) is not None:
                    raise
                failures.append(failure)
        raise failures[0]

    def _built(self, flow: FlowDefinition) -> DataFrame:
        frame = flow.build()
        if not isinstance(frame, DataFrame):
            raise InputError(
                f"the flow {flow.name!r} returned {type(frame).__name__}, expected a DataFrame",
                file=str(flow.place),
            )
        return frame

    def _stand_in(self, wanted: dict[str, bool]) -> bool:
        """Let datasets stand in the session as streams (True) or at rest; whether that changed anything."""
        changed = {name: streamed for name, streamed in wanted.items() if name in self._schemas}
        changed = {name: new for name, new in changed.items() if self._streamed.get(name) != new}
        for name, streamed in changed.items():
            self._stub(name, streamed=streamed).createOrReplaceTempView(name)
        self._streamed |= changed
        return bool(changed)

    def _stub(self, dataset: str, *, streamed: bool) -> DataFrame:
        reader = self._session.readStream if streamed else self._session.read
        return reader.schema(self._schemas[dataset]).parquet(str(self._empty))

    def _kind(self, dataset: str) -> str:
        return self._definitions.datasets[dataset].kind

    def _register(
        self, flow: FlowDefinition, frame: DataFrame, plan: PlanReads, schema: StructType, streaming: bool
    ) -> None:
        kind, reads = self._kind(flow.target), self._folded(plan)
        if kind == "view":
            self._views[flow.target] = reads
            frame.createOrReplaceTempView(flow.target)
            return
        if reads.lent and kind != "materialized":
            raise refused_lent_stream(flow, reads.lent[0])
        refuse_wrong_kind(flow, kind, streaming, reads.static)
        if kind == "materialized" and flow.target in self._partial:
            raise refused_second_flow(flow)
        if kind != "materialized" and (reads.stateful or plan.sorted):
            check_appends(frame, flow.name, str(flow.place))
        self._flows[flow.name] = FlowNode(
            *(flow.name, flow.target, reads.inputs, reads.views, reads.outside),
            *(reads.stateful and kind != "materialized", schema, reads.fingerprint, flow.place),
            unplaced_fingerprint=reads.unplaced_fingerprint,
            spark_conf=self._settings(flow, reads.views),
            static=reads.static,
            unobserved=reads.unobserved,
            relative_paths=reads.relative_paths,
            lent=reads.lent,
            joins=reads.joins and kind != "materialized",
        )
        if kind != "sink":
            self._note_schema(flow, schema)

    def _settings(self, flow: FlowDefinition, views: Iterable[str]) -> dict[str, str]:
        """A flow's own settings override those of the views it reads."""
        found: dict[str, str] = {}
        for name in (*views, flow.name):
            found |= self._definitions.flows[name].spark_conf
        return found

    def _note_schema(self, flow: FlowDefinition, schema: StructType) -> None:
        """The table is known once all of its flows are."""
        name, place = flow.target, str(flow.place)
        so_far = self._partial.get(name, schema)
        self._partial[name] = merged_schema(so_far, schema, f"the flows into {name!r}", place)
        if any(
            other.target == name and other.name not in self._flows
            for other in self._definitions.flows.values()
        ):
            return
        table = self._definitions.datasets[name]
        known, defined = self._partial[name], str(table.place)
        if (stated := stated_schema(table.arguments, name, self._session, defined)) is not None:
            known = checked_schema(stated, known, name, place)
        check_format(table.arguments, name, self._session, defined)
        check_columns(table.arguments, known.fieldNames(), name, defined)
        self._schemas[name] = known
        self._stand_in({name: True})

    def _folded(self, reads: PlanReads) -> FoldedReads:
        known = self._definitions
        return folded(reads, self._local_name, self._views, known.datasets, known.lent)

    def _local_name(self, name: str) -> str:
        """The dataset that a name stands for, or the name of a table outside."""
        return self._definitions.standing(name) or self._definitions.names.key(name)

    def _first_unknown(self, reads: PlanReads) -> str | None:
        names = [self._local_name(table.name) for table in reads.tables]
        return next((name for name in names if self._is_pending(name)), None)

    def _pending_dataset_in(self, failure: AnalysisException) -> str | None:
        name = self._local_name(_missing_in(failure).replace("`", ""))
        return name if self._is_pending(name) else None

    def _borrowed(self, failure: AnalysisException) -> bool:
        """Whether another pipeline has the table that was not found; it stands in the session then."""
        missing = _missing_in(failure)
        table = self._definitions.borrow(missing) if missing else None
        if table is not None:
            table.frame(self._session).createOrReplaceTempView(self._definitions.names.key(missing))
        return table is not None

    def _is_pending(self, name: str) -> bool:
        known = self._schemas.keys() | self._views.keys()
        return name not in known and (name in self._definitions.datasets or name in self._broken)

    def _check_outputs(self) -> None:
        for dataset in self._definitions.datasets.values():
            fed = any(flow.dataset == dataset.name for flow in self._flows.values())
            if dataset.kind != "view" and not fed and dataset.name not in self._broken:
                self._gather.note(
                    InputError(
                        f"no flow writes into {dataset.name!r}",
                        file=str(dataset.place),
                        remedy=f"add a flow with @dp.append_flow(target={dataset.name!r}), or remove it",
                    )
                )

    def _in_order(self) -> dict[str, FlowNode]:
        """Every flow after all writers of what it reads (a dataset is known after its first writer only)."""
        placed: dict[str, FlowNode] = {}
        left = dict(self._flows)
        while left:
            ready = [
                flow
                for flow in left.values()
                if not any(other.dataset in (*flow.inputs, *flow.static) for other in left.values())
            ]
            if not ready:
                flow = next(iter(left.values()))
                names = ", ".join(repr(name) for name in left)
                raise InputError(f"the flows {names} read each other in a circle", file=str(flow.place))
            placed.update((flow.name, flow) for flow in ready)
            left = {name: flow for name, flow in left.items() if name not in placed}
        return placed


def _missing_in(failure: AnalysisException) -> str:
    """The table that was not found, with its parts quoted; empty where something else is wrong."""
    if failure.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return ""
    return (failure.getMessageParameters() or {}).get("relationName", "")


@contextmanager
def flow_settings(
    session: SparkSession, settings: Mapping[str, str], flow: str, place: str
) -> Iterator[None]:
    """Settings that a flow requests (`spark_conf`) are in force meanwhile, and afterwards the session is as
    it was.
    """
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            _set(session, name, value, flow, place)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            elif session.conf.isModifiable(name):
                session.conf.set(name, old)


def _set(session: SparkSession, name: str, value: str, flow: str, place: str) -> None:
    try:
        session.conf.set(name, value)
    except PySparkException as refused:
        why = str(refused).split(" SQLSTATE")[0].strip().splitlines()[0]
        raise InputError(
            f"the flow {flow!r} sets {name}={shown_value(name, value)}, which a session does not allow: "
            f"{why}",
            file=place,
            remedy=(
                "remove it from the flow's spark_conf; settings of a whole server belong under "
                "`configuration` in the pipeline spec"
            ),
        ) from refused
