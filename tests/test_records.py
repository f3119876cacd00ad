"""A record says what was measured and with what, and never where or by whom."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lab.benchmarks import _machine
from lab.benchmarks.__main__ import names
from lab.benchmarks._experiments import measurement_of
from lab.benchmarks._record import RESULTS, Measurement, carry_out, chosen_parts, index_text, prose_of
from lab.experiments.registry import EXPERIMENTS
from mooring.cli.output.result_table import ResultTable

RECORDS = [path for path in sorted(RESULTS.glob("*.md")) if path.name != "README.md"]
FIELDS = ("command", "commit", "date", "machine", "load average", "versions", "took")


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    yield ResultTable.of("Speeds", [{"part": word, "rows_per_s": 12.5} for word in words or ["all"]])
    yield "All is well."


SPEED = Measurement("speed", "How fast it is", "Read it\nwith care.", measure)


def fields_of(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\| ([a-z ]+?) +\| (.*?) +\|$", text, re.MULTILINE))


def test_without_record_tables_are_printed_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    carry_out(SPEED, ["fast"], tmp_path)
    said = capsys.readouterr().out
    assert "| fast |      12.50 |" in said
    assert "All is well." in said
    assert not list(tmp_path.iterdir())


def test_a_record_has_the_tables_the_command_and_with_what_it_was_measured(tmp_path: Path) -> None:
    carry_out(SPEED, ["fast", "--record", "slow"], tmp_path / "new")
    text = (tmp_path / "new" / "speed.md").read_text()
    assert text.startswith(
        "# speed: How fast it is\n\nRead it\nwith care.\n\n**Speeds**\n\n| part | rows per s |\n"
    )
    assert "\nAll is well.\n" in text
    fields = fields_of(text)
    assert set(FIELDS) <= fields.keys()
    assert fields["command"] == "`python -m lab.benchmarks speed:fast,slow --record`"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", fields["date"])
    assert re.match(r"\d+ cores \(.+\), \d+ GB of memory", fields["machine"])
    assert f"Python {platform.python_version()}, numpy " in fields["versions"]
    assert platform.node() not in text
    assert str(Path.home()) not in text


def test_every_record_of_a_folder_is_in_its_list(tmp_path: Path) -> None:
    carry_out(SPEED, ["--record"], tmp_path)
    carry_out(Measurement("zeal", "How keen: very", "", measure), ["--record"], tmp_path)
    listed = (tmp_path / "README.md").read_text()
    assert re.search(
        r"^\| \[speed\]\(speed.md\) \| How fast it is +\| \d{4}-\d\d-\d\d \| ", listed, re.MULTILINE
    )
    assert re.search(r"^\| \[zeal\]\(zeal.md\) +\| How keen: very +\|", listed, re.MULTILINE)


def test_the_commit_is_marked_where_anything_but_a_record_was_changed(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        options = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(tmp_path), *options, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "code.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    clean = _machine.commit(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{7,}", clean)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "docs" / "results" / "speed.md").write_text("fast")
    assert _machine.commit(tmp_path) == clean
    (tmp_path / "code.py").write_text("2")
    assert _machine.commit(tmp_path) == f"{clean} with uncommitted changes"


def test_a_part_that_does_not_exist_is_refused_and_no_part_means_all() -> None:
    assert chosen_parts([], {"a": 1, "b": 2}) == ["a", "b"]
    with pytest.raises(SystemExit, match="found 'c', expected one of a, b"):
        chosen_parts(["a", "c"], ["a", "b"])


def test_the_prose_of_a_module_is_what_follows_its_first_paragraph_without_commands() -> None:
    assert (
        prose_of("Title,\ntwo lines.\n\n    python -m it\n\nHow it\nis done.\n\nAnd why.\n")
        == "How it\nis done.\n\nAnd why."
    )
    assert prose_of(None) == ""


def test_no_benchmark_has_the_name_of_an_experiment() -> None:
    assert not set(names()) & EXPERIMENTS.keys()


def test_an_experiments_record_explains_every_column_that_it_shows() -> None:
    about = measurement_of(EXPERIMENTS["sbon_figure14"]).about
    assert "- policy: policy with its settings" in about
    assert "- rank of 19: mean rank of the chosen site" in about
    assert "number of the draw" not in about


def test_the_list_of_records_is_up_to_date() -> None:
    assert (RESULTS / "README.md").read_text() == index_text(RESULTS)


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_of_something_that_can_be_measured_anew_and_was_measured_with_committed_code(
    record: Path,
) -> None:
    assert record.stem in {*names(), *EXPERIMENTS}
    text = record.read_text()
    fields = fields_of(text)
    assert set(FIELDS) <= fields.keys()
    assert fields["command"].startswith(f"`python -m lab.benchmarks {record.stem}")
    assert "uncommitted" not in fields["commit"]
    assert not re.search(r"/(home|tmp|work|root|Users)/", text)


@pytest.mark.parametrize("record", [r for r in RECORDS if r.stem in EXPERIMENTS], ids=lambda path: path.stem)
def test_the_tables_of_a_full_run_fit_100_columns_when_printed(record: Path) -> None:
    """Printed, columns are two spaces apart; in Markdown, three characters and two at either end."""
    experiments_own = record.read_text().split("\n| measured ")[0]
    for line in experiments_own.splitlines():
        if line.startswith("| "):
            assert len(line) - 4 - (line.count(" | ")) <= 100, line
