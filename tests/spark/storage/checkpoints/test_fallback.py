"""A query of Spark's goes back to what whole logs prove, and delivers what it would have delivered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.sql import DataFrame, SparkSession

from mooring.disk import DISK
from mooring.errors import EngineError
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.fallback import found_fallback, set_aside
from mooring.spark.storage.checkpoints.state_store import MAPS, PROVIDER, ROCKSDB, choose_store
from tests.spark.engine.test_sink_beginning import deliver, feed, pairs, rows, windows


def damage(checkpoint: Path, sink: Path, upto: int) -> None:
    """As a power cut leaves what nobody has synced: empty."""
    newest = [path for part in ("offsets", "commits") for path in (checkpoint / part).glob("[0-9]*")]
    newest += [path for path in (checkpoint / "sources").rglob("[0-9]*") if path.is_file()]
    newest += list((sink / "_spark_metadata").glob("[0-9]*"))
    for path in newest:
        if int(path.name.partition(".")[0]) > upto:
            path.write_bytes(b"")
    for path in (checkpoint / "state").rglob("[0-9]*.*"):
        version = path.name.partition(".")[0]  # of RocksDB's own files: 000009-cf5dae59-...
        if version.isdigit() and int(version) > upto + 1:
            path.write_bytes(b"")


@pytest.mark.parametrize(("query", "store"), [(pairs, MAPS), (windows, ROCKSDB)])
def test_rows_are_those_of_a_query_without_a_power_cut(
    session: SparkSession, tmp_path: Path, query: Callable[[SparkSession, Path], DataFrame], store: str
) -> None:
    session.conf.set(PROVIDER, store)
    choose_store(session, tmp_path, 0)
    (tmp_path / "in").mkdir()
    for number in range(3):
        feed(tmp_path / "in", number)
    checkpoint, sink = tmp_path / "checkpoint", tmp_path / "out"
    frame = query(session, tmp_path / "in")
    deliver(frame, checkpoint, sink)
    log = sink / "_spark_metadata"
    assert found_fallback(checkpoint, log, DISK) is None, "Spark's own files are whole"
    newest = stream_logs.last_batch(checkpoint / "commits")
    assert newest >= 2
    damage(checkpoint, sink, newest - 2)
    found = found_fallback(checkpoint, log, DISK)
    assert found is not None
    assert (found.batch, found.committed) == (newest - 2, True)
    set_aside(DISK, (checkpoint / file for file in found.beyond))
    set_aside(DISK, (log / name for name in found.beyond_sink))
    assert found_fallback(checkpoint, log, DISK) is None
    feed(tmp_path / "in", 3)
    deliver(frame, checkpoint, sink)
    deliver(frame, tmp_path / "truth", tmp_path / "expected")
    assert sorted(rows(sink)) == sorted(rows(tmp_path / "expected"))
    damage(checkpoint, sink, newest - 2)
    with pytest.raises(EngineError, match="no intact log proves"):
        found_fallback(checkpoint, log, DISK, least=newest)
