"""A fragment as one streaming query at one site, in a session of its own.

Inside that session every dataset the fragment reads is a temporary view: over its channel's files where
another fragment writes it, over the flow itself where it runs in this fragment. So the user's functions and
SQL run as they are, at whichever site.
"""

from __future__ import annotations

import functools
import math
import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from mooring.contracts.engine import LOOK_S
from mooring.disk import is_file
from mooring.errors import EngineError, InputError, MooringError
from mooring.model.deployment.fragments import Fragment
from mooring.spark.connectors.formats import remedy_for
from mooring.spark.definitions.definitions import Definitions, load_definitions, sources_digest
from mooring.spark.definitions.running_session import active_session
from mooring.spark.definitions.session_settings import use_settings
from mooring.spark.engine.meters import OBSERVED
from mooring.spark.engine.sink_beginning import later_beginning
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import read_pipeline
from mooring.spark.pipeline.shuffle_partitions import use_partitions
from mooring.spark.pipeline.table_schema import in_table_order, quoted, stored_columns
from mooring.spark.sites.endpoint import (
    Endpoint,
    close_session,
    first_line,
    keep_generated_code,
    open_session,
    spark_version,
)
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.fragment_note import read_fragment_note, write_fragment_note
from mooring.spark.storage.checkpoints.later_beginning import LaterBeginning, name_query
from mooring.spark.storage.checkpoints.state_store import choose_store
from mooring.spark.storage.compaction import MAX_FILE_AGE_S
from mooring.spark.storage.fencing import drop_unfinished, take_epoch
from mooring.spark.storage.result_record import read_results
from mooring.spark.storage.sink_numbers import disagreement
from mooring.spark.views.static_reads import looked_up
from mooring.spark.views.view_frame import analysed_view

MAX_FILES_PER_BATCH = 200
"""Bounds the batch with which a late reader catches up."""


class RunningQuery(Protocol):
    """What is asked of a fragment that runs: a streaming query, or the loop that refreshes a view."""

    @property
    def isActive(self) -> bool: ...
    def exception(self) -> Exception | None: ...
    @property
    def status(self) -> dict[str, Any]: ...
    @property
    def recentProgress(self) -> Sequence[Any]: ...
    def stop(self) -> None: ...


@dataclass
class RunningFragment:
    name: str
    site: str
    session: SparkSession
    session_id: str
    query: RunningQuery
    since_s: float = field(default_factory=time.monotonic)
    """Before it was started, by the monotonic clock."""


@dataclass
class PreparedFragment:
    """A fragment analysed at a site and ready to start: what takes long is done, and nothing runs yet."""

    layout: Layout
    fragment: Fragment
    site: str
    session: SparkSession
    session_id: str
    frame: DataFrame
    definitions: Definitions
    accept_edits: bool
    to_the_end: bool = False
    """It ends by itself once it has read what there is."""
    starter: Callable[[PreparedFragment, Path], RunningQuery] | None = None
    """What runs in the place of a streaming query, given the checkpoint."""
    closed: bool = False
    """Its session was released, and whatever ran in it has ended."""
    beginning: LaterBeginning | None = None
    """How an empty checkpoint begins; None: as Spark makes it."""
    _checkpoint: Path | None = None

    def start(self, reached: Callable[[str], None] = lambda stage: None) -> RunningFragment:
        """Fence off every query of the fragment that was started before, then start this one."""
        self.fence()
        reached("fenced")
        return self.launch()

    def fence(self) -> None:
        """From now on no query of the fragment that was started before commits anything."""
        try:
            check_checkpoint(self.layout, self.fragment, accept_edits=self.accept_edits)
            is_query = self.starter is None
            self._checkpoint = fence(self.layout, self.fragment.name, self.beginning, named=is_query)
            # After the fence: a note without a checkpoint means that one was lost.
            name = self.fragment.name
            for writer in self.layout.reads_of(name):
                if (views := self.layout.version_channels.get(writer)) is not None:
                    views.begin(name)
            note = self.layout.fragment_note(name)
            write_fragment_note(note, name, _fingerprints(self.layout, self.fragment), self.layout.disk)
        except Exception:
            self.discard()
            raise

    def launch(self) -> RunningFragment:
        """Start the query, after the fence."""
        assert self._checkpoint is not None, "launched before the fence"
        name, since_s = self.fragment.name, time.monotonic()
        try:
            with active_session(self.session):
                query = (self.starter or _streaming_query)(self, self._checkpoint)
        except Exception as failure:
            self.discard()
            raise flow_failure(self.layout, name, self.site, failure) from failure
        return RunningFragment(name, self.site, self.session, self.session_id, query, since_s)

    def discard(self) -> None:
        self.closed = close_session(self.session)


def _streaming_query(prepared: PreparedFragment, checkpoint: Path) -> RunningQuery:
    writer = query_writer(
        prepared.layout, prepared.fragment, prepared.definitions, prepared.frame, checkpoint
    )
    query: StreamingQuery = (writer.trigger(availableNow=True) if prepared.to_the_end else writer).start()
    return query


def prepare_fragment(
    layout: Layout,
    fragment: Fragment,
    site: str,
    endpoint: Endpoint,
    *,
    accept_edits: bool = False,
    to_the_end: bool = False,
) -> PreparedFragment:
    """Open a session for the fragment and have the site analyse it; its query may run elsewhere meanwhile."""
    check_checkpoint(layout, fragment, accept_edits=accept_edits)
    refuse_edited(layout, fragment, endpoint)
    session_id = str(uuid.uuid4())
    session = open_session(endpoint, session_id)
    beginning = None
    try:
        keep_generated_code(session)
        layout.storage_root.introduce(session, site)
        refuse_other_spark(session, layout, site)
        use_settings(session, layout.project.spec, layout.project.spec_file, site)
        use_partitions(layout, fragment.name, session)
        definitions = load_definitions(
            layout.project.folder, layout.project.spec, session, skip=layout.project.settings.skip
        )
        if layout.pipeline.is_view(fragment.name):
            flow = layout.pipeline.flows[fragment.name]
            frame = analysed_view(layout, flow, definitions, session)
        else:
            frame = analysed_frame(layout, fragment, definitions, session, to_the_end=to_the_end)
            with active_session(session):
                beginning = later_beginning(layout, fragment, frame, session)
    except MooringError:
        close_session(session)
        raise
    except Exception as failure:
        close_session(session)
        raise flow_failure(layout, fragment.name, site, failure) from failure
    return PreparedFragment(
        layout,
        fragment,
        site,
        session,
        session_id,
        frame,
        definitions,
        accept_edits,
        to_the_end,
        beginning=beginning,
    )


def analysed_frame(
    layout: Layout,
    fragment: Fragment,
    definitions: Definitions,
    session: SparkSession,
    *,
    to_the_end: bool = False,
) -> DataFrame:
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(_reports_kept(layout)))
    for flow in fragment.operators:
        for name, value in layout.pipeline.flows[flow].spark_conf.items():
            session.conf.set(name, value)
    if any(layout.pipeline.flows[flow].stateful for flow in fragment.operators):
        checkpoint, expected_bytes = layout.checkpoint(fragment.name), expected_state_bytes(layout, fragment)
        choose_store(session, checkpoint, expected_bytes, layout.disk)
    with active_session(session), looked_up(layout, fragment, session):
        for dataset in layout.inputs_of(fragment):
            rows = channel_stream(layout, dataset, session, bounded=not to_the_end)
            rows.createOrReplaceTempView(dataset)
        frame = _output_frame(layout, fragment, definitions)
        _ = frame.schema  # has the site analyse it now rather than when it starts
    return frame


def fence(
    layout: Layout, fragment: str, beginning: LaterBeginning | None = None, *, named: bool = False
) -> Path:
    """From now on no query of the fragment that was started before commits anything; returns the checkpoint
    for the next one. One without a batch begins as `beginning` says; `named`: with the id of its query, which
    Spark would not sync.
    """

    def begin(checkpoint: Path) -> None:
        if stream_logs.last_batch(checkpoint / "offsets", layout.disk) >= 0:
            return
        if named and not is_file(layout.disk, checkpoint / "metadata"):
            name_query(checkpoint, layout.disk)
        if beginning is not None:
            beginning.write(checkpoint, layout.disk)

    checkpoint = take_epoch(layout.checkpoints(fragment), layout.disk, begin)
    if (channel := layout.channels.get(fragment)) is not None:
        try:
            drop_unfinished(channel.sink_log, layout.owned.remove, layout.disk)
        except OSError as failure:
            raise EngineError(f"{channel.sink_log} cannot be fenced: {failure}") from failure
    return checkpoint


def expected_state_bytes(layout: Layout, fragment: Fragment) -> float:
    """As `mooring.yml` states it for the fragment's flows or datasets; 0 where it does not."""
    total = 0.0
    for name in fragment.operators:
        for known in dict.fromkeys((name, layout.pipeline.flows[name].dataset)):
            stated = layout.project.settings.statistics.get(known)
            if stated is not None and "state_bytes" in stated:
                total += float(stated["state_bytes"])
                break
    return total


def _reports_kept(layout: Layout) -> int:
    """Batches whose reports a site keeps: those of two looks, since every look asks for all of them and pays
    for it in CPU.
    """
    return min(50, 2 + math.ceil(2 * LOOK_S / layout.project.settings.trigger_s))


def channel_stream(layout: Layout, dataset: str, session: SparkSession, *, bounded: bool = True) -> DataFrame:
    """Everything written into a dataset, by all its flows, as one stream. Where it is not `bounded`, a batch
    takes in all there is, as plain Spark's do: which rows are late depends on where one batch ends.
    """
    table = layout.pipeline.datasets[dataset].arguments
    columns = layout.pipeline.schemas[dataset]
    reader = session.readStream.format(table.format).schema(stored_columns(columns, table.partition_cols))
    if bounded:
        reader = reader.option("maxFilesPerTrigger", MAX_FILES_PER_BATCH)
    reader = reader.option("maxFileAge", f"{MAX_FILE_AGE_S}s")
    parts = [reader.load(layout.address(channel.link)) for channel in layout.writers_of(dataset)]
    return functools.reduce(DataFrame.unionByName, parts).select(*map(quoted, columns.fieldNames()))


def _output_frame(layout: Layout, fragment: Fragment, definitions: Definitions) -> DataFrame:
    """Run the flows in order; all but the last become views for those that follow."""
    made: set[str] = set()
    frame: DataFrame | None = None
    for name in fragment.operators:
        node = layout.pipeline.flows[name]
        for view in node.views:
            if view not in made:
                made.add(view)
                definitions.flows[view].build().createOrReplaceTempView(view)
        frame = definitions.flows[name].build()
        if (columns := layout.pipeline.schemas.get(node.dataset)) is not None:
            frame = in_table_order(frame, node.schema.fieldNames(), columns)
        if name != fragment.name:
            frame.createOrReplaceTempView(node.dataset)
    assert frame is not None
    return frame


def query_writer(
    layout: Layout,
    fragment: Fragment,
    definitions: Definitions,
    frame: DataFrame,
    checkpoint: Path,
    *,
    into: Path | None = None,
) -> Any:
    """`into`: a folder for the rows of a table, in the place of its channel."""
    node = layout.pipeline.flows[fragment.name]
    target = definitions.datasets[node.dataset]
    if target.kind == "sink":
        # Most sinks do not say how many rows they got, and their files may lie anywhere.
        frame = frame.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
        writer = frame.writeStream.format(target.sink_format).options(**target.sink_options)
    else:
        folder = layout.address(layout.channels[node.name].link if into is None else into)
        table = layout.pipeline.datasets[node.dataset].arguments
        writer = frame.writeStream.format(table.format).option("path", folder)
        if table.partition_cols:
            writer = writer.partitionBy(*table.partition_cols)
    trigger_ms = round(layout.project.settings.trigger_s * 1000)
    return (
        writer.outputMode("append")
        .queryName(fragment.name)
        .option("checkpointLocation", layout.address(checkpoint))
        .trigger(processingTime=f"{trigger_ms} milliseconds")
    )


def check_checkpoint(layout: Layout, fragment: Fragment, *, accept_edits: bool) -> None:
    """Refuse to resume a checkpoint that another version of the flow made, unless told to."""
    checkpoint, note_file = layout.checkpoint(fragment.name), layout.fragment_note(fragment.name)
    channel = layout.channels.get(fragment.name)
    last = stream_logs.last_committed_batch(checkpoint, layout.disk)
    planned = stream_logs.last_batch(checkpoint / "offsets", layout.disk)
    if channel is not None and channel.goes_beyond(planned):
        raise EngineError(
            f"the fragment {fragment.name!r} has written batches that its checkpoint {checkpoint} lacks; "
            "resuming would silently drop rows",
            remedy="restore the checkpoint, or start over with --fresh",
        )
    _refuse_sink_elsewhere(layout, fragment, checkpoint)
    if accept_edits or last is None or layout.disk.look(note_file) is None:
        return
    before = read_fragment_note(note_file, layout.disk)
    now = _fingerprints(layout, fragment)
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not changed:
        return
    flows = layout.pipeline.flows
    what = "; ".join(
        f"{name!r} ({flows[name].place})" + ("" if name in before else " was added")
        if name in now
        else f"{name!r} was removed"
        for name in changed
    )
    raise InputError(
        f"flows were edited after the checkpoint of {fragment.name!r} was made: {what}. Its state and "
        "progress belong to the old version",
        file=str(flows[fragment.name].place),
        remedy=(
            "undo the edit, continue with the old state (--accept-edits, safe if no aggregation or "
            "join changed), or start the pipeline over (--fresh)"
        ),
    )


def _refuse_sink_elsewhere(layout: Layout, fragment: Fragment, checkpoint: Path) -> None:
    """Its log has other batches than its writer has delivered."""
    sink = layout.sink_of(fragment.name)
    if sink is not None and (found := disagreement(sink, fragment.name, checkpoint)) is not None:
        raise EngineError(found.what, remedy=found.remedy)


def _fingerprints(layout: Layout, fragment: Fragment) -> dict[str, str]:
    return {name: layout.pipeline.flows[name].fingerprint for name in fragment.operators}


def flow_failure(layout: Layout, fragment: str, site: str, failure: BaseException | str) -> EngineError:
    """Name the flow, its source line and the site; a failing user function also its own line."""
    operators = layout.fragments[fragment].operators
    flows = ", ".join(f"{name!r} ({layout.pipeline.flows[name].place})" for name in operators)
    text = str(failure)
    inner = _lines_in_project(text, layout.project.folder)
    at = f", at {inner[-1]}" if inner else ""
    return EngineError(
        f"the flow {flows} failed at site {site!r}{at}: {_cause(failure)}",
        remedy=remedy_for(failure)
        or "correct the flow and run again; the flow resumes after its last committed batch",
    )


def _cause(failure: BaseException | str) -> str:
    """The most telling line: of a Python traceback its last, else the first."""
    text = str(failure)
    python = re.findall(r"^\s*([\w.]*(?:Error|Exception|Interrupt)\b.*)$", text, re.MULTILINE)
    if "Traceback (most recent call last)" in text and python:
        return str(python[-1])
    if isinstance(failure, PySparkException):
        return first_line(failure)
    return text.strip().splitlines()[0] if text.strip() else "no reason given"


def _lines_in_project(text: str, project: Path) -> list[str]:
    found = re.findall(r'File "([^"]+)", line (\d+)', text)
    return [
        f"{Path(file).relative_to(project)}:{line}"
        for file, line in found
        if Path(file).is_relative_to(project)
    ]


def refuse_other_spark(session: SparkSession, layout: Layout, site: str) -> None:
    """An endpoint may have been started again with another version."""
    recorded = read_results(layout.root, layout.disk)
    if recorded is not None and (there := spark_version(session)) != recorded.spark:
        raise EngineError(
            f"site {site!r} runs Spark {there}, and the other sites {recorded.spark}: the same flow may "
            "compute other rows there",
            remedy="run one version of Spark at all sites",
        )


def refuse_edited(layout: Layout, fragment: Fragment, endpoint: Endpoint) -> None:
    """Refuse a fragment whose flows were edited since the pipeline was read.

    Definitions are read anew wherever a fragment starts, so a move or a restart would silently run another
    version than the one whose state it goes on with. Costs nothing while no file has changed; then the
    pipeline is analysed anew, since comments and layout do not count.
    """
    project = layout.project
    if sources_digest(project.folder, project.spec) == layout.sources:
        return
    session = open_session(endpoint)
    try:
        use_settings(session, project.spec, project.spec_file, endpoint.shown)
        definitions = load_definitions(project.folder, project.spec, session, skip=project.settings.skip)
        now = read_pipeline(project.spec, definitions, session, layout.empty).flows
    finally:
        close_session(session)
    before = layout.pipeline.flows
    for name in fragment.operators:
        if name not in now or now[name].fingerprint != before[name].fingerprint:
            raise InputError(
                f"the flow {name!r} was edited while the pipeline runs, so {fragment.name!r} cannot start "
                "from its state",
                file=str(before[name].place),
                remedy="undo the edit, or stop the pipeline and run it again",
            )
