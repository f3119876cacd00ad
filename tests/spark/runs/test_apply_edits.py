"""A fragment whose cut became finer: its checkpoint is carried over to its parts, or the edit is refused."""

from __future__ import annotations

import errno
import itertools
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.checksum import checked
from mooring.errors import EngineError, InputError
from mooring.spark.pipeline.project_edits import AcceptedEdits
from mooring.spark.runs import apply_edits
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.checkpoint_parts import begin_sink_log
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.pipeline_record import read_record
from tests.spark.pipeline.written_storage import Flow, WrittenStorage, run_fragment

if TYPE_CHECKING:
    from mooring.spark.pipeline.layout import Layout
    from tests.spark.conftest import ProjectMaker

PACKETS = Flow("packets", outside=True)
CLEAN = Flow("clean", ("packets",))
WINDOWS = Flow("windows", ("clean",), stateful=True)
EDITED = Flow("windows", ("clean",), stateful=True, does="more")
OTHER = Flow("other", ("packets",))
ODD = Flow("odd", ("clean",))
BEFORE = (PACKETS, OTHER, CLEAN, WINDOWS)
"""`clean` and `windows` are one fragment."""
AFTER = (*BEFORE, ODD)
"""Now both `windows` and `odd` read `clean`."""
LATE = AcceptedEdits(join_late=("odd",))


@pytest.fixture
def storage(make_project: ProjectMaker) -> WrittenStorage:
    return WrittenStorage(make_project)


def offsets(layout: Layout, fragment: str) -> list[str]:
    """Of the fragment's sources, after its last batch."""
    log = layout.checkpoint(fragment) / "offsets"
    return (log / str(stream_logs.last_batch(log))).read_text().splitlines()[2:]


def read_by(layout: Layout, fragment: str, source: int = 0) -> list[str]:
    """Names of the files that the fragment has taken in from a source."""
    log = layout.checkpoint(fragment) / "sources" / str(source)
    return [entry.path.name for entry in stream_logs.source_entries(log, 1000)]


def folders_read_by(layout: Layout, fragment: str) -> list[str]:
    log = layout.checkpoint(fragment) / "sources" / "0"
    return [entry.path.parent.name for entry in stream_logs.source_entries(log, 1000)]


def query_id(layout: Layout, fragment: str) -> str:
    return str(json.loads((layout.checkpoint(fragment) / "metadata").read_text())["id"])


def state_of(layout: Layout, fragment: str) -> list[str]:
    return sorted(path.name for path in (layout.checkpoint(fragment) / "state").glob("*/*"))


def test_the_head_goes_on_with_the_sources_and_the_stateful_part_with_the_state(
    storage: WrittenStorage,
) -> None:
    """The old checkpoint, with its open windows, was left behind, and everything was read again."""
    before = storage.run(BEFORE, batches=3)
    assert before.fragments["windows"].operators == ("clean", "windows")
    query, state = query_id(before, "windows"), state_of(before, "windows")

    after = storage.begin(AFTER, accepted=LATE)
    assert set(after.fragments) == {"packets", "other", "clean", "windows", "odd"}
    assert offsets(after, "clean") == ['{"logOffset": 2}']
    assert read_by(after, "clean") == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    assert state_of(after, "clean") == []
    assert query_id(after, "clean") != query, "two queries of one name cannot run side by side"
    assert offsets(after, "windows") == ["-"]
    assert read_by(after, "windows") == []
    assert state_of(after, "windows") == state
    assert query_id(after, "windows") == query


def test_channels_go_on_where_they_stood_and_nothing_is_lost_or_read_twice(storage: WrittenStorage) -> None:
    storage.run(BEFORE, batches=12)
    after = storage.begin(AFTER, accepted=LATE)
    assert set(after.channels["packets"].readers()) == {"other", "clean"}
    assert after.channels["packets"].state().lag("clean") == 0
    assert {name: channel.lost() for name, channel in after.channels.items() if channel.lost()} == {}
    assert after.lost_checkpoints() == {}

    for name in after.fragments:
        run_fragment(after, name, 2)
    assert [entry.path.name for entry in stream_logs.sink_entries(after.channels["clean"].sink_log)] == [
        "part-12.parquet",
        "part-13.parquet",
    ]
    assert read_by(after, "windows") == ["part-12.parquet", "part-13.parquet"]
    windows = stream_logs.sink_entries(after.channels["windows"].sink_log)
    assert [entry.path.name for entry in windows] == [f"part-{batch}.parquet" for batch in range(14)]


def test_state_of_the_first_flow_goes_with_it(storage: WrittenStorage) -> None:
    flows = (PACKETS, Flow("sums", ("packets",), stateful=True), Flow("alarms", ("sums",)))
    state = state_of(storage.run(flows), "alarms")
    after = storage.begin(flows, "cuts: [sums]")
    assert after.fragments["sums"].operators == ("packets", "sums")
    assert state_of(after, "sums") == state
    assert state_of(after, "alarms") == []


def test_a_fragment_that_was_interrupted_inside_a_batch_is_drained_first(storage: WrittenStorage) -> None:
    before = storage.run(BEFORE)
    run_fragment(before, "windows", 1, interrupted=True)
    after = storage.begin(AFTER, accepted=LATE)
    assert stream_logs.last_batch(after.checkpoint("clean") / "commits") == 3
    assert stream_logs.last_batch(after.checkpoint("windows") / "commits") == 3


def test_what_cannot_be_drained_is_not_carried_over(
    storage: WrittenStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.spark.pipeline.written_storage._drain", lambda layout, change: None)
    before = storage.run(BEFORE)
    run_fragment(before, "windows", 1, interrupted=True)
    with pytest.raises(EngineError, match="'windows' was interrupted inside a batch"):
        storage.begin(AFTER, accepted=LATE)
    assert storage.layout(BEFORE).fragments["windows"].operators == ("clean", "windows")


def test_a_flow_dropped_from_the_end_of_a_fragment_leaves_the_others_where_they_were(
    storage: WrittenStorage,
) -> None:
    before = storage.run(BEFORE)
    after = storage.begin((PACKETS, OTHER, CLEAN), accepted=AcceptedEdits(drop=("windows",)))
    assert offsets(after, "clean") == ['{"logOffset": 2}']
    assert not before.checkpoint("windows").is_dir()
    assert not before.channels["windows"].folder.exists()


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (
            (PACKETS, Flow("dns", outside=True), CLEAN, Flow("pairs", ("clean", "dns"), stateful=True)),
            (PACKETS, Flow("dns", outside=True), CLEAN, Flow("pairs", ("clean", "dns"), stateful=True), ODD),
            "its sources would be divided between",
        ),
        (BEFORE, (PACKETS, OTHER, CLEAN, EDITED, ODD), "edited"),
    ],
    ids=["sources divided", "edited too"],
)
def test_a_change_that_is_not_certain_to_be_right_is_refused_with_the_reason(
    storage: WrittenStorage, before: Sequence[Flow], after: Sequence[Flow], why: str
) -> None:
    storage.run(before)
    with pytest.raises(InputError, match=why):
        storage.begin(after, accepted=LATE)


def union(*writers: str, stateful: bool = True) -> Sequence[Flow]:
    """Flows into one table, and a flow that reads it."""
    into = (Flow(name, ("packets",), into="both") for name in writers)
    return (PACKETS, *into, Flow("sums", ("both",), stateful=stateful))


def test_a_table_gains_a_writer_and_its_reader_goes_on_with_the_others(storage: WrittenStorage) -> None:
    state = state_of(storage.run(union("even", "odd")), "sums")
    after = storage.run(
        union("third", "odd", "even"), accepted=AcceptedEdits(join_late=("third",)), batches=1
    )
    assert after.reads_of("sums") == ("even", "odd", "third")
    assert len(read_by(after, "sums", 0)) == len(read_by(after, "sums", 1)) == 4
    assert read_by(after, "sums", 2) == ["part-0.parquet"]
    assert set(state) < set(state_of(after, "sums"))


def test_a_table_inside_a_fragment_gains_a_writer(storage: WrittenStorage) -> None:
    before = storage.run(union("even"))
    assert before.fragments["sums"].operators == ("packets", "even", "sums")
    after = storage.begin(union("even", "odd"), accepted=AcceptedEdits(join_late=("odd",)))
    assert offsets(after, "packets") == ['{"logOffset": 2}']
    assert offsets(after, "even") == ["-"]
    assert offsets(after, "sums") == ["-", "-"]
    assert state_of(after, "sums") != []


def test_a_table_loses_a_writer_once_its_readers_have_read_it_all(storage: WrittenStorage) -> None:
    before = storage.run(union("even", "odd"))
    run_fragment(before, "even", 1)
    query = query_id(before, "sums")
    after = storage.begin(union("odd"), accepted=AcceptedEdits(drop=("even",)))
    assert stream_logs.last_batch(after.checkpoint("sums") / "commits") == 3, "drained"
    assert offsets(after, "sums") == ['{"logOffset": 3}']
    assert all(path.startswith("odd") for path in folders_read_by(after, "sums"))
    assert query_id(after, "sums") == query


def test_readers_of_several_tables_are_refused_another_writer(storage: WrittenStorage) -> None:
    """Which of their sources comes first is Spark's affair."""

    def flows(*writers: str) -> Sequence[Flow]:
        return (*union(*writers), OTHER, Flow("pairs", ("both", "other"), stateful=True))

    storage.run(flows("even"))
    with pytest.raises(
        InputError, match=r"'pairs' cannot continue: it would read 'odd' too, and the numbers"
    ):
        storage.begin(flows("even", "odd"), accepted=AcceptedEdits(join_late=("odd",)))


def test_a_checkpoint_with_more_sources_than_are_known_is_not_divided(storage: WrittenStorage) -> None:
    """As when a flow reads a table twice: Spark then has two sources for it."""
    before = storage.run(BEFORE)
    for batch in (before.checkpoint("windows") / "offsets").iterdir():
        batch.write_text(batch.read_text() + '\n{"logOffset": 2}')
    with pytest.raises(InputError, match="2 sources, expected 1"):
        storage.begin(AFTER, accepted=LATE)


def test_state_that_no_flow_is_known_to_keep_is_not_left_behind(storage: WrittenStorage) -> None:
    flows = (PACKETS, OTHER, CLEAN, Flow("large", ("clean",)))
    before = storage.run(flows)
    (before.checkpoint("large") / "state" / "0").mkdir(parents=True)
    with pytest.raises(InputError, match="has state that cannot be assigned to one of its flows"):
        storage.begin((*flows, ODD), accepted=LATE)


def test_an_edit_that_was_refused_is_still_one_when_the_cut_changes(storage: WrittenStorage) -> None:
    """A start that was refused leaves its record, and the checkpoint of the version before."""
    storage.run(BEFORE)
    edited = (PACKETS, OTHER, CLEAN, EDITED)
    storage.begin(edited)
    with pytest.raises(InputError, match="'windows' was edited too"):
        storage.begin((*edited, ODD), accepted=LATE)


def test_a_part_has_read_what_the_fragment_had_even_of_files_that_were_merged(
    storage: WrittenStorage,
) -> None:
    """A merged file stands in no reader's log; how far they were is noted in the channel."""
    note_file = storage.run(BEFORE).owned.channel_note("packets")
    note = json.loads(checked(note_file.read_bytes()))
    note["readers"]["windows"] = 2
    note_file.write_text(json.dumps(note))
    storage.begin(AFTER, accepted=LATE)
    assert json.loads(note_file.read_text())["readers"] == {"other": 0, "clean": 2}


def test_a_fragment_that_never_planned_a_batch_may_be_cut_at_will(storage: WrittenStorage) -> None:
    storage.begin(BEFORE)
    layout = storage.run(AFTER)
    assert set(layout.fragments) == {"packets", "other", "clean", "windows", "odd"}


def test_a_full_disk_is_named_and_leaves_the_old_cut(
    storage: WrittenStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.run(BEFORE)

    def full(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(apply_edits, "make_part", full)
        with pytest.raises(EngineError, match="No space left"):
            storage.begin(AFTER, accepted=LATE)
    assert storage.begin(BEFORE).fragments["windows"].operators == ("clean", "windows")


class Crash(BaseException):
    """The process ends here."""


STEPS = ("make_part", "write_record", "replace_checkpoint", "begin_sink_log", "write_fragment_note", "retire")
"""Of settling, each of which changes something."""
DROPPED = ((PACKETS, OTHER, CLEAN), AcceptedEdits(drop=("windows",)))


@pytest.mark.parametrize(("flows", "accepted"), [(AFTER, LATE), DROPPED], ids=["cut", "dropped"])
def test_an_edit_that_was_cut_short_anywhere_is_finished_by_the_next_run(
    storage: WrittenStorage,
    monkeypatch: pytest.MonkeyPatch,
    flows: Sequence[Flow],
    accepted: AcceptedEdits,
) -> None:
    expected = _outcome(storage, flows, accepted)
    for step in range(100):
        storage.run(BEFORE, batches=2)
        with monkeypatch.context() as patched:
            _crash_before(patched, step)
            try:
                storage.begin(flows, accepted=accepted)
            except Crash:
                pass
            else:
                break
        assert _outcome(storage, flows, accepted) == expected, f"cut short before step {step}"
    assert step >= len(STEPS)


def _crash_before(patched: pytest.MonkeyPatch, step: int) -> None:
    """Crash before the given one of all the steps that change something."""
    left = itertools.count(step, -1)

    def crashing(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            if next(left) <= 0:
                raise Crash
            return real(*args, **options)

        return run

    for name in STEPS:
        patched.setattr(apply_edits, name, crashing(getattr(apply_edits, name)))


def _outcome(storage: WrittenStorage, flows: Sequence[Flow], accepted: AcceptedEdits) -> dict[str, str]:
    """What the edit leaves in the storage, which is cleared; names and numbers drawn by lot left out."""
    if not storage.layout(flows).before.fragments:
        storage.run(BEFORE, batches=2)
    root = storage.begin(flows, accepted=accepted).root
    record = read_record(root)
    assert record is not None
    assert not record.unfinished
    drawn = {"metadata", "mooring-storage.json", "pipeline.json"}
    found = {
        re.sub(r"/\d{6}/", "/EPOCH/", str(path.relative_to(root))): re.sub(
            r'"(made|sum)": ?"\w+"', "", path.read_text()
        )
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in drawn and not re.fullmatch(r"\d{6}", path.name)
    }
    shutil.rmtree(root)
    return {**found, "cut": str(record.fragments), "reads": str(record.reads)}


@pytest.mark.parametrize("batch", [0, 3, 9, 12, 19, 25])
def test_the_log_of_a_new_channel_has_every_batch_that_spark_looks_for(tmp_path: Path, batch: int) -> None:
    log = tmp_path / "_spark_metadata"
    begin_sink_log(log, batch, unowned(tmp_path))
    assert stream_logs.last_batch(log) == batch
    assert stream_logs.absent_batch(log) is None
    assert stream_logs.sink_entries(log) == []
    compacted = [int(path.stem) for path in log.glob("*.compact")]
    assert all((number + 1) % 10 == 0 for number in compacted)
