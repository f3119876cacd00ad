"""What is sound is called so, every loss is found and named, and looking changes nothing."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.checksum import checked, with_sum
from mooring.controller.journal import Journal
from mooring.disk import DISK
from mooring.doctor.examination import examine
from mooring.errors import EngineError, InputError
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites
from mooring.spark.ownership.owner import look, take
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.falling_back import falling_back
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.storage.checkpoints.fallback import found_fallback
from mooring.spark.storage.owned_folder import OwnedFolder, unowned
from mooring.spark.storage.pipeline_record import FlowRecord, PipelineRecord, read_record, write_record
from tests.doctor.conftest import BATCHES, write_checkpoint, written

if TYPE_CHECKING:
    from tests.doctor.conftest import Damage, StoredProject


def digest(folder: Path) -> str:
    """Of every name, kind, mode, time and content below a folder."""
    seen = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        info = os.lstat(path)
        seen.update(f"{path} {info.st_mode} {info.st_mtime_ns} {info.st_ctime_ns} {info.st_ino}".encode())
        if path.is_symlink():
            seen.update(os.readlink(path).encode())
        elif path.is_file():
            seen.update(path.read_bytes())
    return seen.hexdigest()


def test_a_storage_that_is_whole_is_sound_part_by_part(stored: StoredProject) -> None:
    seen = examine(stored.folder)
    assert seen.is_sound
    assert {finding.state for finding in seen.findings} == {"sound"}
    found = {(finding.part, finding.name): finding.what for finding in seen.findings}
    assert "totals has read all" in found["channel", "numbers"]
    assert "kept as results" in found["channel", "totals"]
    assert found["checkpoint", "totals"] == "epoch 2, 3 batches committed"


def test_a_project_that_never_ran_is_sound(stored: StoredProject) -> None:
    shutil.rmtree(stored.folder / ".mooring")
    seen = examine(stored.folder)
    assert seen.is_sound
    assert not (stored.folder / ".mooring").exists()


def remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


LOSSES: dict[str, tuple[str, str, Damage]] = {
    # the part and name it is found at, and what is done
    "a file of a channel": ("channel", "numbers", lambda s: s.files("numbers")[1].unlink()),
    "half a file": ("channel", "numbers", lambda s: cut(s.files("numbers")[1])),
    "a channel's folder": ("channel", "numbers", lambda s: shutil.rmtree(s.channel("numbers"))),
    "folder and note": ("channel", "numbers", lambda s: shutil.rmtree(s.channel("numbers").parent)),
    "a channel's note": ("channel", "totals", lambda s: s.channel_note("totals").unlink()),
    "half a note": ("channel", "totals", lambda s: cut(s.channel_note("totals"))),
    "a note of something else": ("channel", "totals", lambda s: s.channel_note("totals").write_text("[]")),
    "a link": ("channel", "totals", lambda s: (s.root / "links" / "totals").unlink()),
    "an entry of a log": (
        *("channel", "numbers"),
        lambda s: (s.channel("numbers") / "_spark_metadata" / "1").unlink(),
    ),
    "the end of a log": (
        *("channel", "numbers"),
        lambda s: (s.channel("numbers") / "_spark_metadata" / "2").unlink(),
    ),
    "a line of a log": ("channel", "numbers", lambda s: cut(s.channel("numbers") / "_spark_metadata" / "1")),
    "the newest batch of a writer": (
        *("channel", "totals"),
        lambda s: remove(s.checkpoint("totals") / part / "2" for part in ("offsets", "commits")),
    ),
    "a checkpoint": ("checkpoint", "totals", lambda s: shutil.rmtree(s.checkpoint("totals"))),
    "all epochs": ("checkpoint", "totals", lambda s: shutil.rmtree(s.checkpoints("totals"))),
    "an offset": ("checkpoint", "totals", lambda s: (s.checkpoint("totals") / "offsets" / "1").unlink()),
    "a commit": ("checkpoint", "totals", lambda s: (s.checkpoint("totals") / "commits" / "1").unlink()),
    "the query's id": ("checkpoint", "totals", lambda s: (s.checkpoint("totals") / "metadata").unlink()),
    "what a source has read": (
        *("checkpoint", "totals"),
        lambda s: shutil.rmtree(s.checkpoint("totals") / "sources" / "0"),
    ),
    "the newest state": (
        *("checkpoint", "totals"),
        lambda s: (s.checkpoint("totals") / "state" / "0" / "1" / "3.delta").unlink(),
    ),
    "a partition's state": (
        *("checkpoint", "totals"),
        lambda s: remove((s.checkpoint("totals") / "state" / "0" / "1").glob("*")),
    ),
    "half a fragment's note": ("checkpoint", "totals", lambda s: cut(s.fragment_note("totals"))),
    "the root's mark": (
        *("storage", "mooring-storage.json"),
        lambda s: (s.root / "mooring-storage.json").unlink(),
    ),
    "all of a channel": (
        *("channel", "totals"),
        lambda s: remove([s.channel("totals").parent, s.root / "links" / "totals"]),
    ),
    "a reader": (
        *("channel", "numbers"),
        lambda s: s.channel_note("numbers").write_text(
            json.dumps({"start": 1, "trimming": [], "doubtful": {}, "readers": {}})
        ),
    ),
    "the pipeline record": ("pipeline", "pipeline.json", lambda s: (s.root / "pipeline.json").unlink()),
    "all that owners wrote": ("owner", "owned", lambda s: shutil.rmtree(s.root / "owned")),
    "half a record": ("pipeline", "pipeline.json", lambda s: cut(s.root / "pipeline.json")),
    "half a mark": ("storage", "mooring-storage.json", lambda s: cut(s.root / "mooring-storage.json")),
    "half the sessions": (
        *("sessions", "sessions.json"),
        lambda s: (s.owned / "sessions.json").write_text('[{"site": "a"'),
    ),
    "the middle of the journal": (
        *("journal", "journal.jsonl"),
        lambda s: (s.owned / "journal.jsonl").write_text('{"record": 1}\n{"record": 2}\n'),
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_found_and_named_and_nothing_is_changed(stored: StoredProject, loss: str) -> None:
    part, name, damage = LOSSES[loss]
    damage(stored)
    before = digest(stored.folder)
    seen = examine(stored.folder)
    assert digest(stored.folder) == before
    assert not seen.is_sound
    lost = [finding for finding in seen.findings if finding.state == "lost"]
    assert (part, name) in {(finding.part, finding.name) for finding in lost}
    assert all(finding.remedy for finding in lost)


def numbers_of_sinks(stored: StoredProject) -> Path:
    file = stored.root / "sinks.json"
    if not file.exists():
        file.write_text('{"out": 3}')
    return file


SUMMED: dict[str, tuple[str, Callable[[StoredProject], Path]]] = {
    "mark": ("storage", lambda s: s.root / "mooring-storage.json"),
    "numbers of sinks": ("sink", lambda s: numbers_of_sinks(s)),
    "record": ("pipeline", lambda s: s.root / "pipeline.json"),
    "channel's note": ("channel", lambda s: s.channel_note("totals")),
    "fragment's note": ("checkpoint", lambda s: s.fragment_note("totals")),
}


@pytest.mark.parametrize("document", SUMMED)
def test_a_document_that_disagrees_with_its_checksum_is_lost_and_named(
    stored: StoredProject, document: str
) -> None:
    part, place = SUMMED[document]
    file = place(stored)
    whole = with_sum(checked(file.read_bytes()))
    file.write_bytes(whole)
    assert pending(stored) == []
    file.write_bytes(whole.replace(b"o", b"0", 1))  # JSON as before
    lost = [finding for finding in examine(stored.folder).findings if finding.state == "lost"]
    assert part in {finding.part for finding in lost}
    assert any(str(file) in finding.what for finding in lost)


EMPTIED: dict[str, tuple[str, Callable[[StoredProject], Path], str]] = {
    "the newest commit": ("totals", lambda s: s.checkpoint("totals") / "commits" / "2", "batch 2"),
    "the newest offsets": ("totals", lambda s: s.checkpoint("totals") / "offsets" / "2", "batch 1"),
    "a log of a sink": ("totals", lambda s: s.channel("totals") / "_spark_metadata" / "2", "batch 1"),
    "rows": ("totals", lambda s: s.files("totals")[2], "batch 1"),
    "state": ("totals", lambda s: s.checkpoint("totals") / "state" / "0" / "1" / "3.delta", "batch 2"),
    "a source's log": ("totals", lambda s: s.checkpoint("totals") / "sources" / "0" / "2", "batch 1"),
}


@pytest.mark.parametrize("emptied", EMPTIED)
def test_what_a_power_cut_emptied_is_pending_where_whole_logs_prove_the_batch_before(
    stored: StoredProject, emptied: str
) -> None:
    name, place, upto = EMPTIED[emptied]
    place(stored).write_bytes(b"")
    (said,) = pending(stored)
    assert (
        f"{place(stored).name} damaged or missing; whole logs prove {upto} (the next run falls back" in said
    )
    project = load_project(stored.folder)
    record = read_record(stored.root)
    assert record is not None
    (done,) = falling_back(project, record, OwnedFolder(stored.owned)).fall_back()
    assert done.startswith(f"{name} falls back: ")
    assert pending(stored) == []


def sink_of(stored: StoredProject) -> Path:
    """The log of a sink that a third flow writes."""
    record, sink = read_record(stored.root), stored.folder / "out"
    assert record is not None
    flow = FlowRecord("ledger", "sink", "fingerprint", False, "parquet", str(sink))
    more = PipelineRecord(
        {**record.fragments, "into_ledger": ("into_ledger",)},
        {**record.flows, "into_ledger": flow},
        record.reads,
        record.results,
    )
    write_record(stored.root, more, unowned(stored.root))
    write_checkpoint(stored, "into_ledger", Path("/input"), stateful=False)
    for batch in range(BATCHES):
        written(sink / "_spark_metadata" / str(batch), "v1\n")
    return sink / "_spark_metadata"


def test_a_sink_that_its_writer_would_lose_rows_in_is_lost_and_one_that_lost_names_is_pending(
    stored: StoredProject,
) -> None:
    log = sink_of(stored)
    assert examine(stored.folder).is_sound
    (log / str(BATCHES)).write_text("v1\n")
    before = digest(stored.folder)
    (ahead,) = [finding for finding in examine(stored.folder).findings if finding.state == "lost"]
    assert digest(stored.folder) == before
    assert (ahead.part, ahead.name) == ("sink", "ledger")
    assert "--full-refresh ledger" in str(ahead.remedy)
    for number in (BATCHES, BATCHES - 1):
        (log / str(number)).unlink()
    (said,) = pending(stored)
    assert f"{log / '2'} damaged or missing; whole logs prove batch 1" in said
    shutil.rmtree(log)
    (gone,) = [finding for finding in examine(stored.folder).findings if finding.state == "lost"]
    assert "is missing or empty, and its writer 'into_ledger' has committed up to 2" in gone.what


def test_what_became_of_an_older_file_is_not_taken_for_a_power_cut(stored: StoredProject) -> None:
    """As when somebody rewrites files of a sink: nothing is computed again for it."""
    log = stored.channel("totals") / "_spark_metadata"
    entry = json.loads((log / "2").read_text().split("\n")[1])
    (log / "2").write_text("\n".join(["v1", json.dumps(entry | {"modificationTime": 10**7})]))
    stored.files("totals")[0].write_bytes(b"")
    assert found_fallback(stored.checkpoint("totals"), log, DISK) is None
    stored.files("totals")[2].write_bytes(b"")
    found = found_fallback(stored.checkpoint("totals"), log, DISK, readers_known=True)
    assert found is not None
    assert (found.batch, found.damaged) == (1, (stored.root / "links" / "totals" / "part-2.parquet",))


def test_what_readers_have_taken_in_is_not_taken_back(stored: StoredProject) -> None:
    file = stored.channel("numbers") / "_spark_metadata" / "2"
    file.write_bytes(b"")
    lost = [finding for finding in examine(stored.folder).findings if finding.state == "lost"]
    (said,) = [finding.what for finding in lost if finding.part == "checkpoint"]
    assert said.startswith(f"{file} is empty or cut short, and totals has read ")


def test_losses_are_told_all_at_once(stored: StoredProject) -> None:
    for name in ("a link", "an offset", "half a mark"):
        LOSSES[name][2](stored)
    lost = {finding.part for finding in examine(stored.folder).findings if finding.state == "lost"}
    assert lost == {"channel", "checkpoint", "storage"}


def pending(stored: StoredProject) -> list[str]:
    before = digest(stored.folder)
    seen = examine(stored.folder)
    assert digest(stored.folder) == before
    assert seen.is_sound, [finding for finding in seen.findings if finding.state == "lost"]
    return [f"{finding.what} ({finding.remedy})" for finding in seen.findings if finding.state == "pending"]


def test_a_start_that_was_cut_short_is_no_loss(stored: StoredProject) -> None:
    stored.checkpoint("totals").rename(stored.checkpoints("totals") / ".000002.ab12.taken")
    (stored.checkpoints("totals") / "000002").write_text("closed")
    (stored.checkpoints("totals") / ".000003.ab12.making").mkdir()
    (said,) = pending(stored)
    assert "was interrupted" in said
    assert ".000002.ab12.taken" in said


def test_epochs_that_are_open_again_are_told(stored: StoredProject) -> None:
    (stored.checkpoints("totals") / "000001").unlink()
    (said,) = pending(stored)
    assert "000001 is not closed" in said
    (stored.checkpoints("totals") / "000001" / "offsets").mkdir(parents=True)
    (said,) = pending(stored)
    assert "created 000001 again" in said


def test_a_batch_in_doubt_is_no_loss(stored: StoredProject) -> None:
    """Its writer died after planning it, or after the sink noted it and before the checkpoint did."""
    (stored.checkpoint("totals") / "commits" / "2").unlink()
    assert pending(stored) == []


def test_what_the_next_run_finishes_is_told(stored: StoredProject) -> None:
    note = json.loads(stored.channel_note("numbers").read_text())
    oldest = stored.root / "links" / "numbers" / "part-0.parquet"
    stored.channel_note("numbers").write_text(json.dumps({**note, "start": 1, "trimming": [str(oldest)]}))
    stored.files("numbers")[0].unlink()
    (stored.owned / "sessions.json").write_text(
        json.dumps([{"site": site, "fragment": "totals", "session": "1"} for site in ("here", "gone")])
    )
    journal = Journal(stored.owned, lambda: 1.0)
    placed = FragmentSites({"totals": "here"})
    journal.note_placement(placed, "a plan")
    journal.begin_list(placed, [Move("totals", "here", "there")])
    (stored.root / ".note.0123456789abcdef.new").touch()
    said = "\n".join(pending(stored))
    for expected in (
        "1 files were being trimmed (the next run finishes it)",
        "may still run there, behind their fence (the next run ends them)",
        "add the endpoint to mooring.yml again",
        "cut short after 0 (the next run takes it back)",
        "1 files left by interrupted writes",
    ):
        assert expected in said


def test_a_pipeline_that_was_started_over_is_sound(stored: StoredProject) -> None:
    for name in ("numbers", "totals"):
        shutil.rmtree(stored.checkpoint(name))
        (stored.checkpoints(name) / "000002").write_text("closed")
        stored.fragment_note(name).unlink()
        stored.channel_note(name).unlink()
    for part in ("channels", "links"):
        shutil.rmtree(stored.root / part)
    for file in ("mooring-storage.json", "pipeline.json"):
        (stored.root / file).unlink()
    assert pending(stored) == []


def test_an_edit_that_was_cut_short_is_no_loss(stored: StoredProject) -> None:
    file = stored.root / "pipeline.json"
    record = json.loads(checked(file.read_bytes()))
    file.write_text(json.dumps({**record, "unfinished": {"retire": ["totals"], "delete": {}, "carried": {}}}))
    (said,) = pending(stored)
    assert "decided and not finished, of totals (the next run finishes it)" in said


def test_of_a_storage_in_a_format_of_another_mooring_nothing_is_said(stored: StoredProject) -> None:
    mark = stored.root / "mooring-storage.json"
    for form, said in (({"format": 99}, "newer Mooring"), ({}, "format 1, expected 2 to 3")):
        mark.write_text(json.dumps({"name": "m", "viewfs": False, **form}))
        with pytest.raises(InputError, match=said):
            examine(stored.folder)


def test_a_storage_that_was_used_and_is_away_is_a_loss_and_another_one_is_told(stored: StoredProject) -> None:
    files = RunFiles(stored.folder / ".mooring")
    files.known.remember(stored.root)
    assert pending(stored) == []
    away = stored.root.rename(stored.root.with_name("unmounted"))
    (lost,) = [f for f in examine(stored.folder).findings if f.state == "lost"]
    assert lost.what == f"expected the storage mooring-0 in {stored.root}, found no folder"
    assert not stored.root.exists()
    shutil.copytree(away, stored.root, symlinks=True)
    files.known.remember(away)
    (said,) = pending(stored)
    assert "the last run of this folder stored in" in said


def test_a_fragment_without_checkpoint_and_note_is_told(stored: StoredProject) -> None:
    """As a sink's, of which nothing else is stored."""
    record = json.loads(checked((stored.root / "pipeline.json").read_bytes()))
    sink = {"dataset": "out", "kind": "sink", "fingerprint": "f", "stateful": False}
    record |= {"fragments": record["fragments"] | {"out": ["out"]}, "flows": record["flows"] | {"out": sink}}
    (stored.root / "pipeline.json").write_text(json.dumps(record))
    (said,) = pending(stored)
    assert "never started, or both are lost" in said


def test_how_the_last_owner_left_is_told(stored: StoredProject) -> None:
    own = take(stored.root, look(stored.root), stored.folder)
    with pytest.raises(EngineError, match=f"runs as process {os.getpid()}"):
        examine(stored.folder)
    assert own._lock is not None
    own._lock.close()  # as if it had died
    (said,) = pending(stored)
    assert "ended without releasing the storage" in said
    take(stored.root, look(stored.root), stored.folder).release()
    assert pending(stored) == []
    (stored.root / "owned" / "000001").unlink()
    (said,) = pending(stored)
    assert "000001 is not closed" in said


def test_without_a_journal_nothing_is_lost_but_the_placement(stored: StoredProject) -> None:
    (stored.owned / "journal.jsonl").unlink()
    (said,) = pending(stored)
    assert "the next run makes a new placement" in said


def test_a_merge_that_was_cut_short_is_no_loss_and_its_files_are_not_strangers(stored: StoredProject) -> None:
    old, note_file = stored.channel("totals") / "part-old.parquet", stored.channel_note("totals")
    old.write_text("rows")
    merge = {"id": "0" * 16, "into": f"merged-0-1-1-{'0' * 16}.parquet", "at": None, "due_s": None}
    note_file.write_text(json.dumps({**json.loads(note_file.read_text()), "merges": [merge]}))
    assert "merges" in str([f.what for f in examine(stored.folder).findings if f.state == "lost"])
    listed = {"hidden": f".merging-{'0' * 16}", "size": 1, "modified_ms": 1, "files": [str(old)]}
    lists = OwnedFolder(stored.owned).merge_lists("totals")
    lists.mkdir(parents=True)
    (lists / f"{'0' * 16}.json").write_text(json.dumps(listed))
    (said,) = pending(stored)
    assert "1 small files were being merged (the next run finishes it)" in said
    assert "never committed" not in str(examine(stored.folder).findings)


def test_files_that_no_log_names_are_counted_and_no_loss(stored: StoredProject) -> None:
    (stored.channel("numbers") / "part-orphan.parquet").write_text("rows")
    whats = [f.what for f in examine(stored.folder).findings if (f.part, f.name) == ("channel", "numbers")]
    assert "1 files of batches that never committed" in whats[0]


def test_a_project_that_runs_is_left_alone(stored: StoredProject) -> None:
    lock = stored.root.parent / "lock"
    with lock.open("w") as held:
        held.write("4711")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(EngineError, match="runs as process 4711"):
            examine(stored.folder)


def test_a_token_that_everybody_can_read_is_told_and_not_shown(stored: StoredProject) -> None:
    settings = stored.folder / "mooring.yml"
    settings.write_text(
        settings.read_text().replace("{capacity: 2}", '{capacity: 2, connect: "sc://a/;token=hunter2"}')
    )
    settings.chmod(0o644)
    (said,) = pending(stored)
    assert "every user of this machine" in said
    assert "hunter2" not in said
    settings.chmod(0o600)
    assert pending(stored) == []
