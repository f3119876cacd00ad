"""The fixed inputs of a refresh: the committed batch of every writing flow, the version of every view.

All of it is looked up before any of it is read, those that are made of others first: a table that another one
was made of then holds at least what went into it. The files of a table are handed to Spark as a log of their
own, of the kind by which its file sink vouches for files, so that it reads those and no others, lists no
folder, and finds the same files however often the query names the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from mooring.errors import EngineError
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.pipeline.table_schema import quoted, stored_columns
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage import stream_logs
from mooring.spark.storage.committed_files import CommittedFiles, held_files
from mooring.spark.storage.views.versions import ReadsOf, ViewVersion

_SINK_LOG = "_spark_metadata"


@dataclass(frozen=True)
class FixedReads:
    tables: Mapping[str, CommittedFiles]
    views: Mapping[str, ViewVersion]
    channels: Mapping[str, str]

    @property
    def marks(self) -> ReadsOf:
        """By which the same reads are known again."""
        batches = {flow: batch for table in self.tables.values() for flow, batch in table.batches.items()}
        versions = {name: version.folder for name, version in self.views.items()}
        return ReadsOf(batches, dict(self.channels), versions)


def marks_now(layout: Layout, flow: FlowNode) -> ReadsOf:
    """What a refresh would read if it began now, told without reading any log."""
    batches, channels, versions = dict[str, int](), dict[str, str](), dict[str, str]()
    for name in flow.static:
        if (view := layout.views.get(name)) is not None:
            found = view.current()
            versions[name] = "" if found is None else found.folder
        else:
            for each in layout.writers_of(name):
                batches[each.name], channels[each.name] = (
                    stream_logs.last_batch(each.sink_log, layout.disk),
                    each.made,
                )
    return ReadsOf(batches, channels, versions)


@contextmanager
def fixed_reads(layout: Layout, datasets: Iterable[str], reader: str) -> Iterator[FixedReads]:
    """What `reader` reads as it stands; none of it is removed meanwhile."""
    tables, views, channels = dict[str, CommittedFiles](), dict[str, ViewVersion](), dict[str, str]()
    with ExitStack() as held:
        for name in _made_of_others_first(layout, datasets):
            if (view := layout.views.get(name)) is not None:
                if (found := view.hold()) is not None:
                    held.callback(view.release, found)
                if found is None or found.fingerprint != layout.pipeline.writers(name)[0].fingerprint:
                    raise EngineError(
                        f"{reader!r} reads {name!r}, which has no version of its present query yet",
                        remedy=f"refresh {name!r} first",
                    )
                views[name] = found
            else:
                tables[name] = held.enter_context(held_files(layout.writers_of(name)))
                channels |= {each.name: each.made for each in layout.writers_of(name)}
        yield FixedReads(tables, views, channels)


def _made_of_others_first(layout: Layout, datasets: Iterable[str]) -> list[str]:
    order = {flow.dataset: at for at, flow in enumerate(layout.pipeline.flows.values())}
    return sorted(datasets, key=order.__getitem__, reverse=True)


def show(
    layout: Layout,
    fixed: FixedReads,
    session: SparkSession,
    scratch: Path,
    name_of: Callable[[str], str] = str,
) -> None:
    """Let every dataset stand in the session, under its name or what `name_of` makes of it, as it was fixed.
    `scratch` is a folder for the logs of its files, which stays as long as they are read.
    """
    for name, table in fixed.tables.items():
        folder = scratch / file_name(name)
        write_file_log(folder, table, layout)
        _stored(layout, name, folder, session, apart=True).createOrReplaceTempView(name_of(name))
    for name, version in fixed.views.items():
        folder = layout.views[name].path(version)
        _stored(layout, name, folder, session, apart=False).createOrReplaceTempView(name_of(name))


def _stored(layout: Layout, name: str, folder: Path, session: SparkSession, *, apart: bool) -> DataFrame:
    """What a folder holds of a dataset; `apart`: the files lie elsewhere than the log that vouches for
    them.
    """
    table, columns = layout.pipeline.datasets[name].arguments, layout.pipeline.schemas[name]
    reader = session.read.format(table.format).schema(stored_columns(columns, table.partition_cols))
    if apart and not table.partition_cols:  # with partitions Spark looks at all files anyway
        reader = reader.option("recursiveFileLookup", "true")
    return reader.load(layout.address(folder)).select(*map(quoted, columns.fieldNames()))


def write_file_log(folder: Path, table: CommittedFiles, layout: Layout) -> None:
    """A log that vouches for exactly these files, in a folder that holds nothing else."""
    log = folder / _SINK_LOG
    layout.disk.make_folder(log, parents=True)
    lines = [stream_logs.sink_line(layout.address(file.path), file.size, 0) for file in table.files]
    content = b"\n".join([stream_logs.VERSION, *lines])
    layout.disk.replace(log / "0", content, durable=False)
