"""The command as a process of its own: exit codes, a closed pipe, Ctrl-C."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mooring.model.problem.problem import Problem

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

COMMAND = [sys.executable, "-m", "mooring"]


def test_the_exit_code_reaches_the_shell_and_standard_output_holds_only_json(small: Path) -> None:
    good = subprocess.run([*COMMAND, "plan", small, "--json"], capture_output=True, text=True, check=False)
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["policy"] == "rod"
    bad = subprocess.run(
        [*COMMAND, "plan", "nowhere.yaml", "--json"], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 2
    assert json.loads(bad.stdout)["error"]["file"] == "nowhere.yaml"


def test_a_reader_that_goes_away_is_no_error() -> None:
    """As in `mooring generate | head`, when head has seen enough."""
    reader, writer = os.pipe()
    os.close(reader)
    words = ["generate", "--operators", "5000"]
    run = subprocess.run([*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (run.returncode, run.stderr) == (141, "")


def test_ctrl_c_is_quiet(mooring: Mooring, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: object) -> Problem:
        raise KeyboardInterrupt

    monkeypatch.setattr(Problem, "load", interrupted)
    assert mooring("plan", small) == (130, "", "")


def test_a_bug_is_reported_as_one(mooring: Mooring, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only bad input is spared a traceback: a bug shows it, and --json still gets a document."""

    def broken(path: object) -> Problem:
        raise ZeroDivisionError("no such number")

    monkeypatch.setattr(Problem, "load", broken)
    result = mooring("check", small, "--json")
    assert result.code == 1
    assert "Traceback" in result.err
    assert result.document["error"]["kind"] == "ZeroDivisionError"


def test_a_terminal_without_unicode_still_gets_the_figures(small: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run([*COMMAND, "plan", small], capture_output=True, env=environment, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"of the ideal feasible set" in run.stdout
