"""A project with what a run of it would have stored, written without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

SPEC = "name: test\nstorage: file:///nowhere\nlibraries: [{glob: {include: transformations/**}}]\n"
SETTINGS = "sites: {here: {capacity: 2}}\nstreams: {numbers: {site: here, rate: 100}}\n"
BATCHES = 3


@dataclass(frozen=True)
class StoredProject:
    """Flow `numbers` writes a channel, which the stateful `totals` reads and whose result is kept."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / ".mooring" / "storage"

    @property
    def owned(self) -> Path:
        return self.root / "owned" / "000001"

    def channel(self, name: str) -> Path:
        return self.root / "channels" / name / name

    def channel_note(self, name: str) -> Path:
        return self.owned / "notes" / f"{name}.channel.json"

    def checkpoints(self, name: str) -> Path:
        return self.owned / "checkpoints" / name

    def checkpoint(self, name: str) -> Path:
        return self.checkpoints(name) / "000002"

    def fragment_note(self, name: str) -> Path:
        return self.owned / "checkpoints" / f".{name}.fragment.json"

    def files(self, name: str) -> list[Path]:
        return sorted(self.channel(name).glob("*.parquet"))


def written(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def write_channel(project: StoredProject, name: str, readers: list[str]) -> None:
    link = project.root / "links" / name
    for batch in range(BATCHES):
        file = project.channel(name) / f"part-{batch}.parquet"
        written(file, "PAR1" * (batch + 1))  # a file of columns ends so
        entry = {"path": f"file://{link / file.name}", "size": file.stat().st_size, "isDir": False}
        entry |= {"modificationTime": 1, "blockReplication": 1, "blockSize": 1, "action": "add"}
        written(project.channel(name) / "_spark_metadata" / str(batch), f"v1\n{json.dumps(entry)}")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(f"../channels/{name}/{name}")
    note = {"start": 0, "trimming": [], "doubtful": {}, "readers": dict.fromkeys(readers, 0)}
    written(project.channel_note(name), json.dumps(note))


def write_checkpoint(project: StoredProject, name: str, reads: Path, *, stateful: bool) -> None:
    checkpoint = project.checkpoint(name)
    written(project.checkpoints(name) / "000001", "Nothing may be written here.\n")
    written(checkpoint / "metadata", '{"id":"5c0de1a5-0000-4000-8000-000000000000"}')
    for batch in range(BATCHES):
        written(checkpoint / "offsets" / str(batch), f'v1\n{{"conf":{{}}}}\n{{"logOffset":{batch}}}')
        written(checkpoint / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')
        entry = {"path": f"file://{reads}/part-{batch}.parquet", "timestamp": 1, "batchId": batch}
        written(checkpoint / "sources" / "0" / str(batch), f"v1\n{json.dumps(entry)}")
        for partition in range(2 if stateful else 0):
            written(checkpoint / "state" / "0" / str(partition) / f"{batch + 1}.delta", "state")
    written(project.fragment_note(name), json.dumps({"fragment": name, "flows": {name: "fingerprint"}}))


@pytest.fixture
def stored(tmp_path: Path) -> StoredProject:
    from mooring.controller.journal import Journal
    from mooring.model.placement.placement import FragmentSites
    from mooring.spark.storage.owned_folder import unowned
    from mooring.spark.storage.pipeline_record import FlowRecord, PipelineRecord, write_record
    from mooring.spark.storage.storage_root import FORMAT

    project = StoredProject(tmp_path / "project")
    written(project.folder / "spark-pipeline.yml", SPEC)
    written(project.folder / "mooring.yml", SETTINGS)
    mark = {"name": "mooring-0", "viewfs": False, "format": FORMAT}
    written(project.root / "mooring-storage.json", json.dumps(mark))
    flows = {
        name: FlowRecord(name, "table", "fingerprint", name == "totals") for name in ("numbers", "totals")
    }
    record = PipelineRecord(
        {name: (name,) for name in flows}, flows, {"totals": ("numbers",)}, {"totals": "unread"}
    )
    write_record(project.root, record, unowned(project.root))
    write_channel(project, "numbers", ["totals"])
    write_channel(project, "totals", ["results totals"])
    write_checkpoint(project, "numbers", Path("/input"), stateful=False)
    write_checkpoint(project, "totals", project.root / "links" / "numbers", stateful=True)
    placed = FragmentSites({"numbers": "here", "totals": "here"})
    Journal(project.owned, lambda: 1.0).note_placement(placed, "a plan")
    return project


Damage = Callable[[StoredProject], object]
