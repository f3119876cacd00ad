"""A run in the background."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mooring.cli.output.terminal import Terminal
from mooring.cli.verbs.run import start_in_background
from mooring.errors import EngineError
from mooring.spark.runs.run_files import RunFiles


def test_its_log_is_for_its_user_alone(tmp_path: Path) -> None:
    """The address of a page is written there, with the token that changes need."""
    files = RunFiles(tmp_path / ".mooring")
    with pytest.raises(EngineError, match=r"the run ended during its start: (.|\n)*nothing-like-it"):
        start_in_background(files, ["nothing-like-it"], Terminal.of(sys.stdout, sys.stderr, as_json=True))
    assert files.log.stat().st_mode & 0o777 == 0o600
