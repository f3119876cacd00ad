"""Definitions are run in the project's folder; the command stays where it was called."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.definitions.working_folder import command_folder, inside


def test_the_folder_of_the_command_is_known_while_definitions_are_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(tmp_path)
    with inside(project):
        assert (Path.cwd(), command_folder()) == (project, tmp_path)
    assert command_folder() == tmp_path


def test_a_command_in_a_folder_that_is_gone_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(InputError, match="no longer exists"):
        command_folder()
