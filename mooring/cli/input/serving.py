"""Serving a project's run, in this process or as a child of the run."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

from mooring.service.view.history import History
from mooring.service.view.run_source import RunSource
from mooring.service.view.run_view import RunView
from mooring.service.web.app import run_app
from mooring.service.web.server import Address, project_token, serve
from mooring.spark.pipeline.project import work_folder_of
from mooring.spark.runs.system_clock import SystemClock

_PR_SET_PDEATHSIG = 1


def run_service(project: Path, address: Address, listening: Callable[[str, str, str], None]) -> None:
    """Until a signal ends it."""
    folder = work_folder_of(project)
    token = project_token(folder)
    view = RunView(RunSource(project, SystemClock()), History(folder))
    serve(lambda rules: run_app(view, rules), address, token, lambda url: listening(url, token, "page"))


def end_with_parent() -> None:
    """Have the system end this process when the one that started it is gone."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it went before we had asked
        os.kill(os.getpid(), signal.SIGTERM)
