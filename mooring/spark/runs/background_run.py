"""A verb in a process of its own that outlives the one that starts it: what `mooring run --detach` and
`mooring.run` begin."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring.errors import EngineError
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.run_lock import STANDBY_LOG

_LOOK_S = 0.1
_PAGE_S = 30.0


@dataclass(frozen=True)
class Begun:
    process: subprocess.Popen[bytes]
    log: Path

    def page(self, files: RunFiles) -> str | None:
        """The address of the page that it serves, once it does; None if it does not in time."""
        until_s = time.monotonic() + _PAGE_S
        while (page := files.page()) is None and self.process.poll() is None and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        return page


def begin_in_background(files: RunFiles, words: Sequence[str], *, standby: bool = False) -> Begun:
    """Run `mooring WORDS` in a process of its own, and wait until it runs or has failed; a standby until it
    has said what it waits for.
    """
    files.folder.mkdir(exist_ok=True)
    log = files.folder / STANDBY_LOG if standby else files.log
    if not standby:
        if (pid := files.running_pid()) is not None:
            raise EngineError(f"the project already runs, as process {pid}", remedy="`mooring stop` ends it")
        files.forget_status()
    log.unlink(missing_ok=True)
    # For appending, so that it can be kept short; for its user alone: the address of a page has the token.
    with os.fdopen(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "ab") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "mooring", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    while (log.stat().st_size == 0) if standby else (files.read_status() is None):
        if child.poll() is not None:
            said = log.read_text(errors="replace").strip()
            raise EngineError(f"the run ended during its start: {said}", remedy=f"see {log}")
        time.sleep(_LOOK_S)
    return Begun(child, log)
