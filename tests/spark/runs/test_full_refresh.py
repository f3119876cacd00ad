"""A full refresh forgets what was read and written of the tables it names, and of nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError, InputError
from mooring.spark.definitions.table_arguments import TableArguments
from mooring.spark.pipeline.cut_changes import has_begun
from mooring.spark.runs import apply_edits
from mooring.spark.runs.apply_edits import write_anew
from mooring.spark.runs.update_choice import RESET_ALLOWED, UpdateChoice, told_of_readers, update_order
from mooring.spark.storage import stream_logs
from mooring.spark.storage.pipeline_record import read_record
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

FLOWS = (
    Flow("packets", outside=True),
    Flow("clean", ("packets",)),
    Flow("odd", ("clean",)),
    Flow("even", ("clean",)),
    Flow("ledger", ("odd",), kind="sink"),
)
STORED = "tables: {packets: {keep: all}, clean: {keep: all}, odd: {keep: all}, even: {keep: all}}\n"


@pytest.fixture
def storage(make_project: ProjectMaker) -> WrittenStorage:
    return WrittenStorage(make_project)


def test_a_table_written_anew_has_no_rows_and_no_past_and_its_readers_keep_theirs(
    storage: WrittenStorage,
) -> None:
    layout = storage.run(FLOWS, STORED)
    old = layout.checkpoint("clean")
    write_anew(layout, ["clean"])
    assert not has_begun(layout, "clean")
    assert stream_logs.sink_entries(layout.channels["clean"].sink_log) == []
    assert not old.is_dir(), "a query that was left behind finds its checkpoint gone"
    assert has_begun(layout, "odd")
    assert len(stream_logs.sink_entries(layout.channels["odd"].sink_log)) == 3
    assert layout.channels["clean"].lost() is None
    assert {"odd", "even"} <= set(layout.channels["clean"].readers())
    assert layout.channels["clean"].state().committed["odd"] == 0
    again = storage.run(FLOWS, STORED, batches=1)
    assert len(stream_logs.sink_entries(again.channels["clean"].sink_log)) == 1
    assert len(stream_logs.sink_entries(again.channels["packets"].sink_log)) == 4


def test_a_full_refresh_that_was_cut_short_is_finished_by_the_next_run(
    storage: WrittenStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = storage.run(FLOWS, STORED)

    def no_room(*args: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(apply_edits, "_retire", no_room)
        with pytest.raises(EngineError, match="no room"):
            write_anew(layout, ["odd"])
    assert has_begun(layout, "odd"), "decided, and not done"
    record = read_record(layout.root)
    assert record is not None
    assert record.unfinished
    after = storage.begin(FLOWS, STORED)
    assert not has_begun(after, "odd")
    assert stream_logs.sink_entries(after.channels["odd"].sink_log) == []


def test_tables_are_chosen_as_spark_pipelines_has_it(storage: WrittenStorage) -> None:
    layout = storage.layout(FLOWS, STORED)
    everything = update_order(layout, UpdateChoice())
    assert set(everything.chosen) == set(layout.fragments)
    assert everything.anew == ()
    some = update_order(layout, UpdateChoice(refresh=("odd", "ledger")))
    assert (some.chosen, some.anew) == (("odd", "ledger"), ())
    anew = update_order(layout, UpdateChoice(refresh=("even",), full_refresh=("default.CLEAN",)))
    assert (anew.chosen, anew.anew) == (("clean", "even"), ("clean",))
    assert set(update_order(layout, UpdateChoice(full_refresh_all=True)).anew) == set(layout.fragments)
    assert told_of_readers(layout, anew) == [
        "clean is computed again, so odd, even will read all its rows a second time; "
        "a full refresh of both together avoids duplicates"
    ]


def test_a_table_that_must_not_be_reset_reads_on_with_all_others_and_is_refused_by_name(
    storage: WrittenStorage,
) -> None:
    layout = storage.layout(FLOWS, STORED)
    kept = TableArguments(properties={RESET_ALLOWED: "False"})
    datasets = {**layout.pipeline.datasets, "odd": replace(layout.pipeline.datasets["odd"], arguments=kept)}
    guarded = replace(layout, pipeline=replace(layout.pipeline, datasets=datasets))
    everything = update_order(guarded, UpdateChoice(full_refresh_all=True))
    assert "odd" in everything.chosen
    assert "odd" not in everything.anew
    with pytest.raises(InputError, match=r"whose property pipelines\.reset\.allowed is false"):
        update_order(guarded, UpdateChoice(full_refresh=("odd",)))


@pytest.mark.parametrize(
    ("refresh", "full", "everything", "said"),
    [
        (("evem",), (), False, "did you mean 'even'"),
        ((), ("nothing",), False, "expected a table or sink"),
        (("odd",), ("odd",), False, "found odd under both"),
        (("odd",), (), True, "found --full-refresh-all with --refresh"),
        ((), ("odd",), True, "found --full-refresh-all with --full-refresh"),
    ],
)
def test_a_choice_that_means_nothing_or_two_things_is_refused(
    storage: WrittenStorage, refresh: tuple[str, ...], full: tuple[str, ...], everything: bool, said: str
) -> None:
    layout = storage.layout(FLOWS, STORED)
    with pytest.raises(InputError, match=said):
        update_order(layout, UpdateChoice(refresh, full, everything))


def test_a_table_that_is_not_stored_is_refreshed_with_the_one_it_runs_together_with(
    storage: WrittenStorage,
) -> None:
    layout = storage.layout(
        FLOWS[:2], "tables: {packets: {keep: read}}\npins: {clean: here, packets: here}\n"
    )
    assert set(layout.fragments) == {"clean"}
    with pytest.raises(InputError, match="it runs together with 'clean'"):
        update_order(layout, UpdateChoice(refresh=("packets",)))
