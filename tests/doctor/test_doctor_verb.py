"""`mooring doctor` says all of it in a table or one document, and by its exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.cli.main import main

if TYPE_CHECKING:
    from tests.doctor.conftest import StoredProject


def test_the_document_has_the_documented_keys_and_the_exit_code_says_whether_something_is_lost(
    stored: StoredProject, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(stored.folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["version", "project", "storage", "sound", "findings"]
    assert all(list(each) == ["part", "name", "state", "what", "remedy"] for each in document["findings"])
    stored.files("numbers")[1].unlink()
    assert main(["doctor", str(stored.folder), "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["sound"] is False


def test_the_table_names_what_is_lost_and_what_to_do(
    stored: StoredProject, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(stored.folder)]) == 0
    assert "nothing is lost" in capsys.readouterr().out
    stored.files("numbers")[1].unlink()
    assert main(["doctor", str(stored.folder)]) == 4
    out = capsys.readouterr().out
    assert "1 of these are lost" in out
    assert "part-1.parquet" in out.replace("\n", "")


def test_a_folder_that_is_no_project_is_bad_input(stored: StoredProject) -> None:
    assert main(["doctor", str(stored.folder / "nowhere")]) == 2
    assert main(["doctor", str(stored.root)]) == 2
