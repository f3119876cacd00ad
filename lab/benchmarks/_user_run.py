"""A project run as a user runs it: by commands, and looked at through its files and /proc."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PATIENCE_S = 300.0
NOTHING: dict[str, Any] = {"fragments": {}, "troubles": {}, "placement": {}}
"""The status of a project that has none."""


class UserRun:
    """One project folder. Every command, and everything that is waited for, has a time limit."""

    def __init__(
        self, folder: Path, environment: dict[str, str] | None = None, *, module: str = "mooring"
    ) -> None:
        """`module`: what stands for the command `mooring`."""
        self.folder = folder
        self._log = folder / ".mooring" / "run.log"
        self._environment = {**os.environ, **(environment or {})}
        self._command = [sys.executable, "-m", module]

    def mooring(self, *words: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """What a command answers; RuntimeError if it fails or takes too long."""
        command = [*self._command, *words, "--json"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=patience_s, env=self._environment
            )
        except subprocess.TimeoutExpired as late:
            raise RuntimeError(f"{' '.join(words)}: not done after {patience_s:g} s") from late
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def start(self, fragments: int, *options: str) -> None:
        """In the background, until so many fragments run."""
        self.mooring("run", str(self.folder), "--detach", *options)
        self.wait(lambda: len(self.status()["fragments"]) == fragments, f"{fragments} fragments to run")

    def begin(self, *options: str) -> subprocess.Popen[bytes]:
        """The same command as a child of ours, which may have to wait before it runs."""
        command = [*self._command, "run", str(self.folder), *options]
        self._log.parent.mkdir(exist_ok=True)
        if self._log.exists():
            with self._log.with_name("earlier.log").open("ab") as earlier:
                earlier.write(self._log.read_bytes())
        with self._log.open("wb") as out:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self._environment,
                start_new_session=True,
            )

    def stop(self, patience_s: float = PATIENCE_S) -> None:
        self.mooring("stop", str(self.folder), patience_s=patience_s)

    def kill(self, *begun: subprocess.Popen[bytes]) -> None:
        """Everything that has to do with the project, by its id."""
        while pids := self.processes():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for each in begun:
                each.wait()
            time.sleep(0.1)
        for each in begun:
            each.wait()

    def pid(self) -> int:
        """Of the process that runs the project."""
        found = self.mooring("status", str(self.folder))["pid"]
        if found is None:
            raise RuntimeError(f"{self.folder} does not run\n{self.log_end()}")
        return int(found)

    def status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / ".mooring" / "status.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return NOTHING
        return found

    def forget_status(self) -> None:
        """So that what is waited for next is not the last run's."""
        (self.folder / ".mooring" / "status.json").unlink(missing_ok=True)

    def moved(self, placement: dict[str, str]) -> list[dict[str, Any]]:
        """Ask for a placement; returns the steps that were carried out, none if it is there already."""
        answer = self.moves_to(placement)
        return list(answer["applied"]["steps"]) if answer["applied"] else []

    def moves_to(self, placement: dict[str, str]) -> dict[str, Any]:
        """The same; returns all that the command says, with what was predicted."""
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps({"placement": placement}))
        return self.mooring("moves", str(self.folder), "--to", str(plan), "--apply")

    def wait(
        self,
        happened: Callable[[], object],
        what: str,
        patience_s: float = PATIENCE_S,
        every_s: float = 0.2,
    ) -> None:
        deadline = time.monotonic() + patience_s
        while not happened():
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {patience_s:g} s for {what}\n{self.log_end()}")
            time.sleep(every_s)

    def said(self) -> str:
        """All that the run has logged, its lines joined."""
        return " ".join(self._log.read_text(errors="replace").split())

    def log_end(self) -> str:
        try:
            return self._log.read_text(errors="replace")[-4000:]
        except FileNotFoundError:
            return "(no log)"

    def processes(self) -> list[int]:
        """Those with the folder in their command line."""
        return [pid for pid, words in command_lines() if str(self.folder).encode() in words]

    def server_of(self, site: str) -> int:
        """The Java of an embedded site."""
        mark = re.compile(re.escape(f"{self.folder}/.mooring/sites") + f"[^/]*/{site}/")
        for pid, words in command_lines():
            if words.split(b"\0")[0].endswith(b"java") and mark.search(words.decode(errors="replace")):
                return pid
        raise RuntimeError(f"the site {site} of {self.folder} does not run")


def command_lines() -> Iterator[tuple[int, bytes]]:
    """Of every process but our own."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                yield int(entry.name), (entry / "cmdline").read_bytes()


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that want a whole core each."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
