"""Every error Mooring raises on purpose, split by whose fault it is.

The command line turns them into one message and an exit code; nothing else in the library decides exit codes.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

_PACKAGE = Path(__file__).parent
_MOST_SHOWN = 300
"""The most characters shown of a foreign message."""


class MooringError(Exception):
    """Base of all. `remedy` says what the reader can do about it."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return self.message if self.remedy is None else f"{self.message} ({self.remedy})"

    def as_json(self) -> dict[str, object]:
        return {"kind": type(self).__name__, "message": self.message, "remedy": self.remedy}


class InputError(MooringError):
    """The user's input is wrong: a file, a field of it, or an argument."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        field: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.file = None if file is None else str(file)
        self.field = field

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.field) if part)
        return f"{where}: {super().__str__()}" if where else super().__str__()

    def as_json(self) -> dict[str, object]:
        return {**super().as_json(), "file": self.file, "field": self.field}


class UnsupportedError(InputError):
    """The request is well formed, but this policy or metric cannot answer it."""


class InputErrors(InputError):
    """Several problems of one input, found in one go."""

    def __init__(self, errors: Sequence[InputError], *, remedy: str | None = None) -> None:
        self.errors = tuple(errors)
        super().__init__(f"{len(errors)} problems", remedy=remedy)

    @property
    def file(self) -> str | None:
        return self._file

    @file.setter
    def file(self, file: str | None) -> None:
        """Of all that name none themselves."""
        self._file = file
        for error in self.errors:
            error.file = error.file or file

    def __str__(self) -> str:
        more = () if self.remedy is None else (self.remedy,)
        return "\n".join([*map(str, self.errors), *more])

    def as_json(self) -> dict[str, object]:
        return {**super().as_json(), "errors": [error.as_json() for error in self.errors]}


def _file_and_line(error: InputError) -> tuple[str, int]:
    file, _, line = (error.file or "").rpartition(":")
    return (file, int(line)) if line.isdigit() else (error.file or "", 0)


class Gathered:
    """Problems noted one after the other, so that all of them are shown and not only the first."""

    def __init__(self, most: int | None = None) -> None:
        """`most`: so many are enough, and are raised at once; what cannot be trusted may have any number."""
        self.errors: list[InputError] = []
        self._most = most

    def note(self, error: InputError) -> None:
        self.errors += error.errors if isinstance(error, InputErrors) else (error,)
        if self._most is not None and len(self.errors) >= self._most:
            raise InputErrors(self.errors[: self._most], remedy="there may be more; correct these first")

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """What the block raises for bad input is noted, and the work goes on after it."""
        try:
            yield
        except InputError as error:
            self.note(error)

    def raise_any(self) -> None:
        if len(self.errors) > 1:
            raise InputErrors(sorted(self.errors, key=_file_and_line))
        if self.errors:
            raise self.errors[0]


class InfeasibleError(MooringError):
    """No placement can satisfy the request."""

    exit_code = 3


class ConflictError(InfeasibleError):
    """Goals that no placement keeps together."""

    def __init__(self, goals: Sequence[tuple[str, str]]) -> None:
        """`goals`: field and words of each; without any one of them, the rest can be kept."""
        self.goals = tuple(goals)
        listed = "; ".join(f"{words} ({field})" for field, words in goals)
        what = "these goals together" if len(self.goals) > 1 else "this goal"
        super().__init__(f"no placement keeps {what}: {listed}", remedy="change or remove one of them")

    def as_json(self) -> dict[str, object]:
        return {**super().as_json(), "conflict": [{"field": f, "goal": words} for f, words in self.goals]}


class EngineError(MooringError):
    """The engine that runs the operators failed or could not be reached."""

    exit_code = 4


class SiteLostError(EngineError):
    """A site is lost or does not answer; its fragments can no longer be stopped."""


class SiteBusyError(SiteLostError):
    """A site left one request unanswered and answers others: it is slow, and not lost."""


class OvertakenError(MooringError):
    """Another process has taken over the run; all further writes of this one fail in storage."""

    exit_code = EngineError.exit_code


def installing(extra: str) -> str:
    """The remedy where a package is missing that an extra of Mooring brings."""
    return (
        f"install Mooring with its extra: pip install '.[{extra}]' in a checkout, or "
        f"pip install 'WHEEL[{extra}]' with the path of its wheel"
    )


def described(failure: BaseException) -> str:
    """For those who read of it in a log: what Mooring raises on purpose, and what the system says of files,
    speak for themselves; of anything else the type, the message, and where it was raised.
    """
    if isinstance(failure, MooringError | OSError) and str(failure):
        return str(failure)
    message = " ".join(str(failure).split())[:_MOST_SHOWN]
    said = type(failure).__name__ + (f": {message}" if message else "")
    return f"{said} ({where})" if (where := _raised_at(failure)) else said


def _raised_at(failure: BaseException) -> str:
    """File and line; where that is not ours, also the line of ours that called it."""
    frames = [(Path(each.filename), each.lineno) for each in traceback.extract_tb(failure.__traceback__)]
    if not frames:
        return ""
    inner = _shown(*frames[-1])
    ours = [_shown(*frame) for frame in frames if frame[0].is_relative_to(_PACKAGE)]
    return inner if not ours or ours[-1] == inner else f"{inner}, called at {ours[-1]}"


def _shown(file: Path, line: int | None) -> str:
    return f"{'/'.join(file.parts[-3:])}:{line}"
