"""What runs have learnt lasts: per flow and version, bounded, and damage costs one line."""

from __future__ import annotations

from pathlib import Path

from mooring.spark.storage.learnt import (
    MOST_GONE,
    MOST_VERSIONS,
    NOTHING_LEARNT,
    Learnt,
    LearntFlow,
    costs_file,
    read_learnt,
    write_learnt,
)
from mooring.spark.storage.owned_folder import unowned


def line(flow: str, version: str = "1", cost_us: float = 4.0) -> LearntFlow:
    return LearntFlow(
        flow=flow,
        version=version,
        at="2026-11-19T12:00:00Z",
        looks=30,
        cost_us=cost_us,
        cost_us_error=0.5,
        batch_cpu_s=0.2,
        batch_cpu_s_error=0.01,
        rate=100.0,
        rate_error=2.0,
    )


def written(root: Path, *lines: LearntFlow) -> Path:
    write_learnt(root, Learnt(lines), unowned(root))
    return costs_file(root)


def test_what_is_written_reads_back_and_nothing_written_is_nothing_learnt(tmp_path: Path) -> None:
    assert read_learnt(tmp_path) == NOTHING_LEARNT
    written(tmp_path, line("join"), line("odd: name\n"), line("join", "0"))
    found = read_learnt(tmp_path)
    assert found.lines == (line("join"), line("odd: name\n"), line("join", "0"))
    assert not found.damage


def test_a_damaged_line_is_named_with_its_flow_and_the_rest_is_kept(tmp_path: Path) -> None:
    file = written(tmp_path, line("a"), line("b"), line("c"), line("d"))
    lines = file.read_bytes().splitlines(keepends=True)
    torn = [lines[0], lines[1].replace(b"4.0", b"4.1"), lines[2], lines[3][:20]]
    file.write_bytes(b"".join(torn))
    found = read_learnt(tmp_path)
    assert found.lines == (line("a"), line("c"))
    assert [what.split(" is damaged")[0] for what in found.damage] == [
        f"line 2 of {file} (b)",
        f"line 4 of {file}",
    ]
    write_learnt(tmp_path, found.with_lines([line("d")], {"a", "b", "c", "d"}), unowned(tmp_path))
    assert {each.flow for each in read_learnt(tmp_path).lines} == {"a", "c", "d"}
    assert not read_learnt(tmp_path).damage


def test_a_file_that_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path) -> None:
    costs_file(tmp_path).mkdir(parents=True)
    found = read_learnt(tmp_path)
    assert not found.lines
    assert str(costs_file(tmp_path)) in found.damage[0]


def test_fields_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    file = written(tmp_path, line("a"))
    file.write_text(
        '{"flow":"a","version":"1","at":"","looks":3,"cost_us":2.0,"cost_us_error":1,"hours":[1]}\n'
    )
    assert read_learnt(tmp_path).lines[0].cost_us == 2.0


def test_an_edit_keeps_what_is_known_of_other_flows_and_finds_an_undone_version_again() -> None:
    learnt = NOTHING_LEARNT.with_lines([line("a", "1", 4.0), line("b", "1", 9.0)], {"a", "b"})
    edited = learnt.with_lines([line("a", "2", 7.0)], {"a", "b"})
    assert edited.of("b", "1") == line("b", "1", 9.0)
    assert edited.of("a", "1") == line("a", "1", 4.0)
    assert edited.of("a", "3") is None
    assert edited.nearest("a", "3") == line("a", "2", 7.0)
    assert edited.nearest("a", "1") == line("a", "1", 4.0)


def test_however_often_flows_are_edited_and_dropped_the_file_stays_bounded() -> None:
    learnt = NOTHING_LEARNT
    for n in range(3 * MOST_GONE):
        learnt = learnt.with_lines([line("kept", str(n)), line(f"gone {n}")], {"kept"})
    assert [each.version for each in learnt.lines if each.flow == "kept"] == [
        str(n) for n in range(3 * MOST_GONE - 1, 3 * MOST_GONE - 1 - MOST_VERSIONS, -1)
    ]
    assert len(learnt.lines) == MOST_VERSIONS + MOST_GONE
