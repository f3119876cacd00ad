"""What a verb prints on: tables or one JSON document on standard output, progress on standard error."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mooring.errors import InputErrors, MooringError
from mooring.plain_json import plain
from mooring.progress import Report

PIPE_WIDTH = 110
"""Columns when the output is no terminal: the same bytes whoever reads them."""
LOG_EVERY_S = 20.0
"""Between two lines about the progress of long work, where there is no terminal."""


@dataclass(frozen=True, eq=False)
class Terminal:
    """Carries the one decision every verb shares: tables or JSON."""

    out: Console
    err: Console
    as_json: bool

    @classmethod
    def of(cls, stdout: IO[str], stderr: IO[str], as_json: bool) -> Terminal:
        return cls(_console(stdout), _console(stderr), as_json)

    def print(self, *parts: object) -> None:
        """For people; silent under --json, whose document is all that standard output may hold."""
        if not self.as_json:
            self.out.print(*parts)

    def print_whole(self, line: str) -> None:
        """The same for what is copied or passed on: as it is, and never broken into lines."""
        if not self.as_json:
            self.out.print(line, markup=False, highlight=False, soft_wrap=True)

    def document(self, document: Mapping[str, object]) -> None:
        """For programs; silent without --json."""
        if self.as_json:
            self.out.file.write(as_json_text(document))

    def raw(self, text: str) -> None:
        """Text as it is, such as a generated problem file."""
        self.out.file.write(text)

    def note(self, text: str) -> None:
        """A remark on standard error: never part of the result."""
        self.err.print(text, style="dim", markup=False, highlight=False)

    def error(self, error: MooringError) -> None:
        self.document({"error": error.as_json()})
        if not self.as_json:
            for each in error.errors if isinstance(error, InputErrors) else (error,):
                self.err.print(f"mooring: {each}", style="red", markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def progress(self, task: str) -> Iterator[Report]:
        """A bar on standard error while long work runs; a line now and then where that is no terminal."""
        if not self.err.is_terminal:
            yield _LoggedProgress(task, self.note)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.err, transient=True) as bars:
            bar = bars.add_task(task, total=1.0)

            def report(done: float, what: str) -> None:
                bars.update(bar, completed=min(max(done, 0.0), 1.0), description=what or task)

            yield report


class _LoggedProgress:
    """For logs: how far the work is and what it does, every `LOG_EVERY_S`."""

    def __init__(self, task: str, note: Callable[[str], None]) -> None:
        self._what, self._note = task, note
        self._began = self._noted = monotonic()

    def __call__(self, done: float, what: str) -> None:
        self._what, now = what or self._what, monotonic()
        if now - self._noted >= LOG_EVERY_S:
            self._noted = now
            self._note(f"{self._what}: {done:.0%} after {now - self._began:.0f} s")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would exit with code 1 here; the one place that decides exit codes is `main`."""
        raise BrokenPipeError


def _console(file: IO[str]) -> Console:
    width = None if file.isatty() else PIPE_WIDTH
    return _Console(file=file, width=width, highlight=False, emoji=False)


def as_json_text(document: object) -> str:
    """Indented JSON in ASCII, so that no terminal's encoding is in its way; keys in the order given.

    What JSON cannot say (infinity, not a number) becomes null.
    """
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"
