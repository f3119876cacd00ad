"""What was edited between two runs is said or refused, never taken as new."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.checksum import checked
from mooring.errors import EngineError, InputError
from mooring.spark.pipeline.project_edits import AcceptedEdits, project_edits
from mooring.spark.storage import stream_logs
from mooring.spark.storage.fencing import newest_number
from mooring.spark.storage.pipeline_record import RECORD_FILE_NAME, read_record
from mooring.spark.storage.storage_root import FORMAT, format_of
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from mooring.spark.pipeline.layout import Layout
    from tests.spark.conftest import ProjectMaker

PACKETS = Flow("packets", outside=True)
SMALL = Flow("small", ("packets",))
LARGE = Flow("large", ("packets",))
WINDOWS = Flow("windows", ("packets",), stateful=True)
ALL = (PACKETS, SMALL, LARGE)
MARK = "mooring-storage.json"


@pytest.fixture
def storage(make_project: ProjectMaker) -> WrittenStorage:
    return WrittenStorage(make_project)


def files_in(layout: Layout, flow: str) -> list[str]:
    return [entry.path.name for entry in stream_logs.sink_entries(layout.channels[flow].sink_log)]


def trim(layout: Layout) -> None:
    for channel in layout.channels.values():
        channel.trim()


def test_a_flow_commented_out_for_one_run_is_refused_and_nothing_of_it_is_trimmed(
    storage: WrittenStorage,
) -> None:
    """It resumed an old checkpoint over a channel that had been trimmed meanwhile."""
    storage.run(ALL, batches=2)
    with pytest.raises(InputError, match=r"'large' was removed.*2 files.*checkpoint.*--drop 'large"):
        storage.begin((PACKETS, SMALL))
    restored = storage.layout(ALL)
    assert set(restored.channels["packets"].readers()) == {"small", "large"}


def test_even_a_layout_that_is_not_held_against_the_record_forgets_no_reader(storage: WrittenStorage) -> None:
    storage.run(ALL)
    without = storage.layout((PACKETS, SMALL))
    without.create()
    assert "large" in without.channels["packets"].readers()


def test_a_flow_that_is_dropped_by_name_goes_with_its_checkpoint_and_rows_and_that_is_written_down(
    storage: WrittenStorage,
) -> None:
    before = storage.run(ALL, batches=2)
    epoch = newest_number(before.checkpoints("large"))
    after = storage.begin((PACKETS, SMALL), accepted=AcceptedEdits(drop=("large",)))
    assert after.channels["packets"].readers() == ["small"]
    assert not before.channels["large"].folder.exists()
    assert not before.channels["large"].link.is_symlink()
    assert not before.checkpoint("large").is_dir()
    record = read_record(after.root)
    assert record is not None
    (dropped,) = record.dropped
    assert (dropped.name, dropped.what) == ("large", "2 files (8 B) and a checkpoint")
    assert "large" not in record.flows
    storage.begin((PACKETS, SMALL), accepted=AcceptedEdits(drop=("large",)))

    again = storage.run(ALL, accepted=AcceptedEdits(join_late=("large",)))
    assert newest_number(again.checkpoints("large")) > epoch + 1, "an epoch is never used twice"
    assert not (before.checkpoints("large") / f"{epoch:06d}").is_dir()


def test_a_flow_that_never_ran_may_go_as_it_came(storage: WrittenStorage) -> None:
    storage.begin(ALL)
    layout = storage.begin((PACKETS, SMALL))
    assert "large" not in layout.channels["packets"].readers()


def test_a_flow_whose_log_is_damaged_can_be_dropped(storage: WrittenStorage) -> None:
    before = storage.run(ALL, batches=2)
    (before.channels["large"].sink_log / "1").write_bytes(b"")
    after = storage.begin((PACKETS, SMALL), accepted=AcceptedEdits(drop=("large",)))
    assert not before.channels["large"].folder.exists()
    record = read_record(after.root)
    assert record is not None
    assert record.dropped[0].what.endswith("1 is empty, expected 'v1') and a checkpoint")


def test_a_flow_that_comes_back_after_it_was_dropped_may_write_into_another_table(
    storage: WrittenStorage,
) -> None:
    storage.run(ALL)
    storage.begin((PACKETS, SMALL), accepted=AcceptedEdits(drop=("large",)))
    again = storage.run((PACKETS, SMALL, Flow("large", ("packets",), into="huge")))
    assert again.channels["large"].lost() is None


def test_a_table_that_is_named_nowhere_any_more_stays_kept(make_project: ProjectMaker) -> None:
    storage, flows = (
        WrittenStorage(make_project, as_read=False),
        (PACKETS, SMALL, Flow("counted", ("small",))),
    )
    storage.run(flows, "queries: {small: {site: here}}\ntables: {packets: {keep: 7d}}")
    layout = storage.run(flows)
    trim(layout)
    assert [len(files_in(layout, flow)) for flow in ("packets", "small", "counted")] == [6, 6, 6]


def test_a_table_that_mooring_yml_names_is_kept_as_it_says(storage: WrittenStorage) -> None:
    flows = (PACKETS, SMALL, Flow("counted", ("small",)))
    storage.run(flows, "tables: {small: {keep: 7d}}")
    layout = storage.begin(flows, "tables: {small: {keep: read}}")
    assert "small" in layout.fragments, "the cut stays as it was"
    trim(layout)
    assert files_in(layout, "small") == []


def test_a_tables_first_reader_leaves_its_writers_checkpoint_and_rows_alone(
    make_project: ProjectMaker,
) -> None:
    """The two ran as one fragment, with a new checkpoint and without the table."""
    storage = WrittenStorage(make_project, as_read=False)
    storage.run((PACKETS, WINDOWS), "tables: {packets: {keep: read}}")
    flows = (PACKETS, WINDOWS, Flow("alarms", ("windows",)))
    layout = storage.run(flows, "tables: {packets: {keep: read}}")
    assert layout.fragments["windows"].operators == ("packets", "windows")
    assert layout.fragments["alarms"].operators == ("alarms",)
    trim(layout)
    assert len(files_in(layout, "windows")) == 6
    assert layout.channels["windows"].state().committed["alarms"] == 6, "it began at the beginning"


def test_tables_that_were_not_kept_are_from_now_on_and_what_is_gone_is_said(
    storage: WrittenStorage, make_project: ProjectMaker
) -> None:
    flows = (*ALL, Flow("counted", ("small",)))
    trim(storage.run(flows))
    kept = WrittenStorage(make_project, as_read=False)
    notes = project_edits(kept.layout(flows)).notes
    assert [note.partition(";")[0].partition(",")[0] for note in notes] == [
        "packets is kept from now on",
        "small is not stored: it runs inside counted",
    ]
    layout = kept.run(flows)
    trim(layout)
    assert len(files_in(layout, "packets")) == 3
    assert "small" not in layout.channels, "no checkpoint is taken apart unasked"
    with pytest.raises(InputError, match="whose earlier rows were not kept"):
        kept.begin((*flows, Flow("odd", ("packets",))))
    assert not [note for note in project_edits(kept.layout(flows)).notes if "from now on;" in note]
    assert "small" in kept.begin(flows, "tables: {small: {keep: all}}").channels


def test_a_renamed_flow_is_refused_with_both_names(storage: WrittenStorage) -> None:
    storage.run((PACKETS, SMALL, Flow("large", ("packets",), does="the same")))
    with pytest.raises(InputError, match=r"'large' was removed \('big' is new and equal"):
        storage.begin((PACKETS, SMALL, Flow("big", ("packets",), does="the same")))


def test_a_flow_that_turns_to_another_dataset_is_refused(storage: WrittenStorage) -> None:
    storage.run(ALL)
    with pytest.raises(InputError, match=r"'large' wrote into the table 'large' and .* table 'huge'"):
        storage.begin((PACKETS, SMALL, Flow("large", ("packets",), into="huge")))


def test_a_flow_that_joins_a_trimmed_table_must_say_so(storage: WrittenStorage) -> None:
    trim(storage.run(ALL))
    more = (*ALL, Flow("odd", ("packets",)))
    with pytest.raises(InputError, match=r"new flow 'odd' reads 'packets'.*--join-late odd"):
        storage.begin(more)
    layout = storage.begin(more, accepted=AcceptedEdits(join_late=("odd",)))
    assert "odd" in layout.channels["packets"].readers()


def test_a_flow_that_is_added_reads_a_table_from_its_beginning(make_project: ProjectMaker) -> None:
    storage = WrittenStorage(make_project, as_read=False)
    trim(storage.run(ALL))
    layout = storage.begin((*ALL, Flow("odd", ("packets",))))
    assert layout.channels["packets"].state().committed["odd"] == 0


def test_all_that_is_wrong_is_said_at_once(storage: WrittenStorage) -> None:
    storage.run(ALL)
    with pytest.raises(InputError, match=r"'small' was removed.*; the flow 'large' was removed"):
        storage.begin((PACKETS,))


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (AcceptedEdits(drop=("lrge",)), "did you mean 'large'"),
        (AcceptedEdits(drop=("small",)), "found 'small', expected a removed flow"),
        (AcceptedEdits(join_late=("smal",)), "did you mean 'small'"),
    ],
)
def test_only_what_is_to_be_given_up_can_be_named(
    storage: WrittenStorage, accepted: AcceptedEdits, expected: str
) -> None:
    storage.run(ALL)
    with pytest.raises(InputError, match=expected):
        storage.begin((PACKETS, SMALL), accepted=accepted)


def writers(*names: str) -> Sequence[Flow]:
    return (PACKETS, *(Flow(name, ("packets",), into="both") for name in names), Flow("all", ("both",)))


def test_readers_keep_the_order_of_their_sources_however_definitions_are_ordered(
    storage: WrittenStorage,
) -> None:
    """Spark knows sources by number: exchanged, each would be read again from the other's place."""
    storage.run(writers("even", "odd"))
    assert storage.begin(writers("odd", "even")).reads_of("all") == ("even", "odd")


def test_a_cut_only_becomes_finer(storage: WrittenStorage) -> None:
    """Two checkpoints cannot become one."""
    flows = (PACKETS, SMALL)
    apart = storage.run(flows, "cuts: [packets]")
    assert set(apart.fragments) == {"packets", "small"}
    assert set(storage.begin(flows).fragments) == {"packets", "small"}


def test_without_its_record_a_storage_is_not_taken_as_new(storage: WrittenStorage) -> None:
    layout = storage.run(ALL)
    (layout.root / RECORD_FILE_NAME).unlink()
    with pytest.raises(EngineError, match=r"pipeline\.json is missing"):
        storage.begin(ALL)
    (layout.root / RECORD_FILE_NAME).write_text('{"fragments": {"a"')
    with pytest.raises(EngineError, match=r"pipeline\.json cannot be read"):
        storage.begin(ALL)


def test_a_channel_that_was_trimmed_without_regard_to_a_reader_is_refused(storage: WrittenStorage) -> None:
    """As with a note that was put back from before the reader came."""
    layout = storage.run(ALL)
    layout.channels["packets"].forget("large")
    storage.begin(ALL)
    layout.channels["packets"].forget("large")
    trim(layout)
    with pytest.raises(EngineError, match="packets: its note lacks its reader large"):
        storage.begin(ALL)


def test_storage_of_a_newer_format_is_refused_by_name(storage: WrittenStorage) -> None:
    mark = storage.run(ALL).root / MARK
    mark.write_text(json.dumps({**json.loads(checked(mark.read_bytes())), "format": FORMAT + 1}))
    said = f"found storage of format {FORMAT + 1}, expected at most {FORMAT}"
    with pytest.raises(InputError, match=said):
        storage.begin(ALL)


@pytest.mark.parametrize("early", ["no number", "checkpoints in the root"])
def test_storage_of_format_1_is_refused_with_what_can_still_read_it(
    storage: WrittenStorage, early: str
) -> None:
    layout = storage.run(ALL)
    if early == "no number":
        mark = json.loads(checked((layout.root / MARK).read_bytes()))
        del mark["format"]
        (layout.root / MARK).write_text(json.dumps(mark))
    else:
        (layout.root / "checkpoints").mkdir()
    with pytest.raises(InputError, match=r"format 1, expected 2 to 3: .* commit 4a31ded"):
        format_of(layout.root)
