"""Sources outside the pipeline, and a stand-in with chosen batches.

A profile cannot ask a user's source for batches of a given size. It takes a sample of what the source
delivers (from the source itself where that is files, else from the folder the user names), and lets the
flow's own plan read that sample from a folder of files instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.plan import DataSource, LogicalPlan

from mooring.errors import InputError
from mooring.spark.definitions.definitions import Definitions, FlowDefinition
from mooring.spark.definitions.table_arguments import PARQUET
from mooring.spark.definitions.working_folder import command_folder
from mooring.spark.pipeline.pipeline import Pipeline
from mooring.spark.profile.feed import WRITERS
from mooring.spark.sites.endpoint import first_line

_FILE_FORMATS = ("parquet", "json", "csv", "orc", "text")
_STREAM_OPTIONS = ("maxfilespertrigger", "maxbytespertrigger", "latestfirst", "cleansource", "path")
SAMPLE_ROWS = 400_000


@dataclass(frozen=True)
class SourceSample:
    """Rows as a source delivers them."""

    table: pyarrow.Table
    rows_per_file: int
    most_files: int
    """Files that one batch takes at most."""
    kind: str
    """Format of the files that stand in for it."""
    schema_ddl: str
    origin: str


def outside_sources(frame: DataFrame) -> list[DataSource]:
    """The streaming sources outside the pipeline that a frame reads."""
    return [node for node in _nodes(frame._plan) if isinstance(node, DataSource) and node._is_streaming]


def _nodes(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    yield plan
    for value in vars(plan).values():
        for inner in value if isinstance(value, list | tuple) else (value,):
            if isinstance(inner, LogicalPlan):
                yield from _nodes(inner)


def read_sample(session: SparkSession, source: DataSource, dataset: str, folder: Path | None) -> SourceSample:
    """From `folder`/`dataset` where the user gave one, else from the source's own files."""
    if folder is not None and (own := folder / dataset).is_dir():
        files = sorted(f for f in own.rglob("*") if f.is_file() and f.name[0] not in "._")
        kind = files[0].suffix.lstrip(".").replace("jsonl", "json") if files else "parquet"
        return _read(session, source, kind, {}, [str(own)], len(files), f"sample {own}")
    if (source._format or "").lower() == "kafka":
        return _read(
            session, source, "kafka", topic_options(source._options or {}), [], 1, "rows of the topic"
        )
    paths = list(source._paths or ()) or [p for p in [(source._options or {}).get("path")] if p]
    if (source._format or "").lower() not in _FILE_FORMATS or not paths:
        raise InputError(
            f"the source of {dataset!r} is {source._format or 'unknown'}, which cannot be sampled",
            remedy=(
                f"give --sample DIR with sample rows in the format of the source, as files in DIR/{dataset}/"
            ),
        )
    options = {k: v for k, v in (source._options or {}).items() if k.lower() not in _STREAM_OPTIONS}
    count = sum(1 for path in paths for f in _local(path).rglob("*") if f.is_file() and f.name[0] not in "._")
    return _read(session, source, str(source._format), options, paths, count, f"files of {', '.join(paths)}")


def _read(
    session: SparkSession,
    source: DataSource,
    kind: str,
    options: Mapping[str, str],
    paths: list[str],
    files: int,
    origin: str,
) -> SourceSample:
    try:
        reader = session.read.format(kind).options(**options)
        if source._schema:
            reader = reader.schema(source._schema)
        frame = reader.load(paths) if paths else reader.load()
        schema, table = frame.schema, frame.limit(SAMPLE_ROWS).toArrow()
    except PySparkException as failure:
        raise InputError(f"the {origin} cannot be read: {first_line(failure)}") from failure
    if table.num_rows == 0:
        raise InputError(
            f"the {origin} holds no rows", remedy="let the source deliver rows first, or give --sample DIR"
        )
    given = {k.lower(): v for k, v in (source._options or {}).items()}.get("maxfilespertrigger", "1000")
    most = int(given) if given.isdigit() else 1000
    own = (source._format or "").lower()
    return SourceSample(
        table,
        rows_per_file=-(-table.num_rows // max(1, files)),
        most_files=most,
        kind=own if own in WRITERS else "parquet",
        schema_ddl=", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in schema),
        origin=origin,
    )


def _local(path: str) -> Path:
    return command_folder() / path.removeprefix("file://").removeprefix("file:")


def with_stand_ins(definitions: Definitions, stand_in: Callable[[DataSource], None]) -> Definitions:
    """The same definitions; `stand_in` redirects each outside source, in place, right after it is built and
    before anything is analysed.
    """

    def replaced(flow: FlowDefinition) -> FlowDefinition:
        def build() -> Any:
            frame = flow.build()
            for source in outside_sources(frame):
                stand_in(source)
            return frame

        return replace(flow, build=build)

    flows = {name: replaced(flow) for name, flow in definitions.flows.items()}
    return replace(definitions, flows=flows)


def redirect(source: DataSource, folder: Path, sample: SourceSample) -> None:
    """Let the source read `folder` instead; format and options stay its own where we can write such files."""
    kept = {k: v for k, v in (source._options or {}).items() if k.lower() not in _STREAM_OPTIONS}
    same = sample.kind == (source._format or "").lower()
    source._format, source._options, source._paths = sample.kind, kept if same else {}, [str(folder)]
    source._schema = source._schema or sample.schema_ddl


def plain_tables(pipeline: Pipeline) -> Pipeline:
    """The same pipeline with all tables in the form in which samples are written and read here."""
    plain = {
        name: replace(dataset, arguments=replace(dataset.arguments, format=PARQUET, partition_cols=()))
        for name, dataset in pipeline.datasets.items()
    }
    return replace(pipeline, datasets=plain)


_STREAMING_ONLY = (
    *("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"),
    *("startingoffsetsbytimestampstrategy", "failondataloss", "kafka.group.id"),
    *("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"),
)


def topic_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options of a batch that reads what the stream with `options` would, from its beginning to its present
    end. A batch keeps no offsets at the broker, so whoever reads the topic as a stream goes on
    undisturbed.

    >>> topic_options({"subscribe": "orders", "startingOffsets": "latest", "maxOffsetsPerTrigger": "10"})
    {'subscribe': 'orders', 'startingOffsets': 'earliest', 'endingOffsets': 'latest'}
    """
    kept = {name: value for name, value in options.items() if name.lower() not in _STREAMING_ONLY}
    return kept | {"startingOffsets": "earliest", "endingOffsets": "latest"}
