"""The journal stays short however long a run lasts, and whoever reads it learns the same as before."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.controller.journal import MOST_LISTS, MOST_OTHERS, MOST_PAST_MOVES, Journal
from mooring.controller.move_list import inverse_of_last, resume
from mooring.disk import RealDisk
from mooring.errors import EngineError
from mooring.model.deployment.move_times import PastMove
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites

AT_A, AT_B = FragmentSites({"f": "a", "g": "a"}), FragmentSites({"f": "b", "g": "a"})
THERE, BACK = Move("f", "a", "b"), Move("f", "b", "a")
UNBOUNDED = 10**12


def journal_in(folder: Path, compact_at_bytes: int = UNBOUNDED) -> Journal:
    return Journal(folder, lambda: 0.0, compact_at_bytes=compact_at_bytes)


def write_lists(journal: Journal, count: int) -> None:
    """There and back again, each list done."""
    for at in range(count):
        old, move = (AT_A, THERE) if at % 2 == 0 else (AT_B, BACK)
        name = journal.begin_list(old, [move], asked_by=f"asker {at}")
        for stage in ("begin", "prepared", "stopped", "fenced", "started"):
            journal.append("step", list=name, step=0, stage=stage)
        journal.append("step", list=name, step=0, stage="done", pause_s=float(at), state_bytes=0.0)
        journal.append("done", list=name)


def unfinished(*records: tuple[str, dict[str, object]]) -> Callable[[Journal], None]:
    def write(journal: Journal) -> None:
        name = journal.begin_list(AT_A, [THERE], asked_by="somebody")
        for kind, fields in records:
            journal.append(kind, list=name, **fields)

    return write


def superseded(journal: Journal) -> None:
    unfinished(STEP_DONE)(journal)
    journal.note_placement(AT_A, "by hand")


STEP_DONE = ("step", {"step": 0, "stage": "done", "pause_s": 1.0})
ENDINGS: dict[str, Callable[[Journal], None]] = {
    "nothing": lambda journal: None,
    "a placement": lambda journal: journal.note_placement(AT_B, "by hand"),
    "announced": unfinished(),
    "under way": unfinished(STEP_DONE),
    "turned back": unfinished(STEP_DONE, ("turned back", {})),
    "aborted": unfinished(STEP_DONE, ("abort", {"asked_by": "somebody else"})),
    "rolled back": unfinished(("turned back", {}), ("rolled back", {})),
    "relocated": unfinished(("relocated", {"sites": {"g": "c"}}), STEP_DONE),
    "superseded": superseded,
}


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """More lists than a compacted journal tells of."""
    journal = journal_in(tmp_path_factory.mktemp("long"))
    journal.note_placement(AT_A, "planned")
    write_lists(journal, MOST_LISTS + 20)
    return journal.file.read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_compacted_journal_says_the_same(tmp_path: Path, long_history: bytes, ending: str) -> None:
    long, short = journal_in(tmp_path), journal_in(tmp_path / "short", compact_at_bytes=1)
    long.file.write_bytes(long_history)
    ENDINGS[ending](long)
    short.file.parent.mkdir()
    short.file.write_bytes(long.file.read_bytes())
    short.append("stop", asked_by="somebody")
    assert len(short.records()) < len(long.records()) / 2
    assert short.placement() == long.placement()
    assert short.last_list() == long.last_list()
    assert resume(short) == resume(long)
    assert inverse_of_last(short) == inverse_of_last(long)
    assert short.past_moves() == long.past_moves()
    assert short.begin_list(AT_A, [THERE]) == long.begin_list(AT_A, [THERE])  # numbered alike


def test_pauses_of_every_kind_last_however_often_another_kind_moves(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.note_placement(AT_A, "planned")
    done: dict[str, object] = {"step": 0, "stage": "done", "pause_s": 60.2, "state_bytes": 2e6}
    unfinished(("step", {**done, "moved_as": "join", "batch_s": 8.0}), ("done", {}))(journal)
    write_lists(journal, MOST_LISTS + MOST_PAST_MOVES)
    journal = journal_in(tmp_path, compact_at_bytes=1)
    journal.append("stop", asked_by="somebody")
    joins = [move for move in journal.past_moves() if move.kind == "join"]
    assert joins == [PastMove(60.2, 2e6, "join", 8.0)]
    assert len(journal.past_moves()) == 1 + MOST_PAST_MOVES


def test_a_journal_grows_with_what_it_holds_and_not_with_time(tmp_path: Path, long_history: bytes) -> None:
    """And still says who asked for the newest lists and stops."""
    journal = journal_in(tmp_path, compact_at_bytes=20_000)
    journal.file.write_bytes(long_history)
    lengths = []
    for day in range(6):
        write_lists(journal, 20)
        for run in range(MOST_OTHERS // 2):
            journal.append("stop", asked_by=f"day {day}, run {run}")
        lengths.append(journal.file.stat().st_size)
    assert max(lengths) < len(long_history)
    records = journal.records()
    asked = [record["asked_by"] for record in records if record["kind"] == "list"]
    assert asked[-MOST_LISTS:] == [f"asker {at}" for at in range(20)] * (MOST_LISTS // 20)
    assert records[-1]["asked_by"] == f"day 5, run {MOST_OTHERS // 2 - 1}"


def test_a_crash_while_compacting_leaves_the_journal_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut before the new content is in place: what was appended is there, and the next time works."""

    class Crash(BaseException):
        pass

    def crash(*args: object) -> None:
        raise Crash

    journal = journal_in(tmp_path, compact_at_bytes=5_000)
    journal.note_placement(AT_A, "planned")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(Crash):
            write_lists(journal, 100)
    cut = journal.records()
    assert len(cut) > 15
    assert journal_in(tmp_path).records() == cut
    journal.append("stop", asked_by="somebody")
    assert len(journal.records()) < len(cut)
    assert journal.last_list() == journal_in(tmp_path).last_list()


def test_a_full_disk_puts_compacting_off_and_fails_no_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    journal = journal_in(tmp_path, compact_at_bytes=1_000)
    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, "replace", full)
        write_lists(journal, 5)
    assert len(journal.records()) == 5 * 8
    write_lists(journal, 40)
    assert len(journal.records()) < 45 * 8


def test_appending_reads_the_end_of_the_file_alone(tmp_path: Path) -> None:
    """A torn line goes, however long it is; what lies before the last line is not looked at."""
    journal = journal_in(tmp_path)
    journal.note_placement(AT_A, "planned")
    whole = journal.file.read_bytes()
    journal.file.write_bytes(b"damaged\n" + whole + b'{"torn": "' + b"x" * 20_000)
    journal.append("stop", asked_by="somebody")
    content = journal.file.read_bytes()
    assert content.startswith(b"damaged\n" + whole + b'{"record"')
    assert content.count(b"\n") == 3
    with pytest.raises(EngineError, match=r"line 1 .* is damaged"):
        journal.records()


def test_fragments_that_went_on_elsewhere_meanwhile_stay_there_however_the_list_ends(tmp_path: Path) -> None:
    for ending, f_at in (("done", "b"), ("rolled back", "a")):
        (tmp_path / ending).mkdir()
        journal = journal_in(tmp_path / ending)
        name = journal.begin_list(AT_A, [THERE])
        journal.note_relocated({"g": "c"}, FragmentSites({"f": "a", "g": "c"}), "started again after a fault")
        found = resume(journal)
        assert found is not None
        assert found.placement == {"f": "a", "g": "c"}
        journal.append(ending, list=name)
        assert journal.placement() == FragmentSites({"f": f_at, "g": "c"})
        journal.note_relocated({"g": "a"}, AT_A, "started again after a fault")
        assert journal.placement() == AT_A


def test_a_journal_whose_folder_is_away_is_not_begun_in_a_new_one(tmp_path: Path) -> None:
    """Under a storage root that is not mounted it would be another journal, which nobody finds again."""
    root = tmp_path / "root"
    (root / "owned" / "000001").mkdir(parents=True)
    journal = journal_in(root / "owned" / "000001")
    journal.append("stop", asked_by="first")
    root.rename(tmp_path / "away")
    with pytest.raises(EngineError, match=f"there is no folder {journal.file.parent}") as refused:
        journal.append("stop", asked_by="second")
    assert "mounted" in str(refused.value)
    assert not root.exists()
    (tmp_path / "away").rename(root)
    journal.append("stop", asked_by="third")
    assert [record["asked_by"] for record in journal.records()] == ["first", "third"]


def test_a_record_whose_writing_failed_does_not_count(tmp_path: Path) -> None:
    """It was written and could not be synced, say: whoever asked for it was told that nothing was changed."""

    class Failing(RealDisk):
        fails = False

        def append(self, path: Path, data: bytes, *, at: int | None = None) -> int:
            length = super().append(path, data, at=at)
            if self.fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return length

    disk = Failing()
    journal = Journal(tmp_path, lambda: 0.0, disk=disk)
    journal.note_placement(AT_A, "planned")
    disk.fails = True
    for _ in range(2):
        with pytest.raises(EngineError, match="Input/output error"):
            journal.begin_list(AT_A, [THERE])
    assert journal.last_list() is None
    disk.fails = False
    journal.append("stop", asked_by="somebody")
    assert [record["kind"] for record in journal_in(tmp_path).records()] == ["placement", "stop"]


def test_a_journal_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.file.mkdir()
    with pytest.raises(EngineError, match=r"the journal .*journal.jsonl cannot be read"):
        journal.records()
