"""The store of a fragment's state: its checkpoint's, else the user's, else by the state that is expected."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.sites import local_files
from mooring.spark.storage.checkpoints.state_store import (
    CHANGELOG,
    LARGE_STATE_BYTES,
    MAPS,
    PROVIDER,
    ROCKSDB,
    choose_store,
)


@dataclass
class Conf:
    values: dict[str, str] = field(default_factory=dict)

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value


class Session:
    def __init__(self, **values: str) -> None:
        self.conf = Conf({PROVIDER: MAPS, **values})


def checkpoint_with(folder: Path, provider: str) -> Path:
    (folder / "offsets").mkdir(parents=True)
    metadata = {"batchWatermarkMs": 0, "conf": {PROVIDER: provider}}
    (folder / "offsets" / "7").write_text("\n".join(["v1", json.dumps(metadata), '{"logOffset":7}']))
    return folder


def test_a_small_state_keeps_the_default_and_a_large_one_gets_rocksdb(tmp_path: Path) -> None:
    small, large = Session(), Session()
    assert choose_store(small, tmp_path, LARGE_STATE_BYTES / 2) == MAPS
    assert small.conf.values == {PROVIDER: MAPS}
    assert choose_store(large, tmp_path, LARGE_STATE_BYTES) == ROCKSDB
    assert large.conf.values == {PROVIDER: ROCKSDB, CHANGELOG: "false"}


def test_a_checkpoint_keeps_the_store_it_began_with(tmp_path: Path) -> None:
    began_small = checkpoint_with(tmp_path / "maps", MAPS)
    session = Session()
    assert choose_store(session, began_small, 1e12) == MAPS
    assert session.conf.values == {PROVIDER: MAPS}
    began_large = checkpoint_with(tmp_path / "rocksdb", ROCKSDB)
    session = Session(**local_files.HADOOPS_FILES)
    assert choose_store(session, began_large, 0.0) == ROCKSDB
    assert session.conf.values["fs.file.impl"].endswith(".LocalFileSystem")
    session = Session(**local_files.SETTINGS)
    assert choose_store(session, began_large, 0.0) == ROCKSDB
    assert session.conf.values["fs.file.impl"] == local_files.CHECKED


def test_what_the_user_chose_is_left_alone(tmp_path: Path) -> None:
    session = Session(**{PROVIDER: ROCKSDB, CHANGELOG: "true"})
    assert choose_store(session, tmp_path, 1e12) == ROCKSDB
    assert session.conf.values == {PROVIDER: ROCKSDB, CHANGELOG: "true"}
