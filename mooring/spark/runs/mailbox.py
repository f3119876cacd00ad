"""Asking the process that runs a project for something: files in `.mooring/requests/`.

The asker renames a request into place and reads the answer, which the runner replaces as it goes on. Any
process that can write into the project folder can send a request. So a request is bounded in size, checked
field by field, and carried out only if it agrees with the runner's own state. Requests whose asker is gone,
or that are old, are dropped.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import socket
import stat
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mooring.atomic_files import write_whole
from mooring.contracts.mailbox import (
    AbortRequest,
    DismissRequest,
    LeaveRequest,
    MoveRequest,
    Request,
    ReturnRequest,
    StopNotice,
)
from mooring.errors import EngineError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.sites.process_tree import is_alive

_MOST_BYTES = 1_000_000
_FRESH_S = 60.0
_ANSWERS_KEPT_S = 3600.0
_ID = re.compile(r"[0-9a-f]{32}")


class FileMailbox:
    """Both sides of the box: that of the one who asks, and that of the run (`contracts/mailbox.py`)."""

    def __init__(self, work_folder: Path) -> None:
        self.folder = work_folder / "requests"

    # The asker's side

    def ask(self, old: FragmentSites, moves: list[tuple[str, str, str]], asked_by: str = "") -> str:
        """Put a request for moves into the box; returns its id."""
        name = uuid.uuid4().hex
        return self._put(MoveRequest(name, time.time(), os.getpid(), dict(old), moves, asked_by))

    def ask_abort(self, asked_by: str) -> str:
        """Ask to have the list that is being carried out taken back; returns the request's id."""
        return self._put(AbortRequest(uuid.uuid4().hex, time.time(), os.getpid(), asked_by))

    def ask_leave(self, site: str, asked_by: str, *, force: bool) -> str:
        """Ask to have a site emptied and kept empty; returns the request's id."""
        return self._put(LeaveRequest(uuid.uuid4().hex, time.time(), os.getpid(), site, force, asked_by))

    def ask_return(self, site: str, asked_by: str) -> str:
        """Ask to have a site used again; returns the request's id."""
        return self._put(ReturnRequest(uuid.uuid4().hex, time.time(), os.getpid(), site, asked_by))

    def ask_dismiss(self, moves: list[tuple[str, str, str]], asked_by: str) -> str:
        """Ask not to be proposed these moves for a while; returns the request's id."""
        return self._put(DismissRequest(uuid.uuid4().hex, time.time(), os.getpid(), moves, asked_by))

    def announce_stop(self, asked_by: str) -> str:
        """Say who is about to end the run; nobody answers. Returns the notice's id."""
        return self._put(StopNotice(uuid.uuid4().hex, time.time(), os.getpid(), asked_by))

    def _put(self, request: Request) -> str:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self.folder / f"{request.id}.json", msgspec.json.encode(request))
        except OSError as failure:
            raise EngineError(
                f"the request cannot be put into {self.folder}: {failure.strerror or failure}",
                remedy=(
                    "free space or check the owner of the folder, and repeat the request; nothing was "
                    "requested"
                ),
            ) from failure
        return request.id

    def answer(self, name: str) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] = json.loads((self.folder / f"{name}.answer").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return answer

    def withdraw(self, name: str) -> bool:
        """Take a request back, and its answer; False if the runner has taken it already."""
        (self.folder / f"{name}.answer").unlink(missing_ok=True)
        try:
            (self.folder / f"{name}.json").unlink()
        except FileNotFoundError:
            return False
        return True

    # The runner's side

    def take(self) -> Request | None:
        """The next request worth answering, taken out of the box; what is wrong or old is dropped."""
        for file in self._files(".json"):
            request = _read(file)
            with contextlib.suppress(OSError):
                file.unlink()
            if request is None or request.id != file.stem:
                continue
            if abs(time.time() - request.created_s) <= _FRESH_S and is_alive(request.asker_pid):
                return request
        return None

    def reply(self, name: str, answer: Mapping[str, object]) -> None:
        """Replace the answer by a newer one."""
        write_whole(self.folder / f"{name}.answer", json.dumps({"version": 1, **answer}).encode())

    def sweep(self) -> None:
        """Remove answers that nobody came for."""
        for file in self._files(".answer"):
            with contextlib.suppress(OSError):
                if time.time() - file.stat().st_mtime > _ANSWERS_KEPT_S:
                    file.unlink()

    def _files(self, suffix: str) -> list[Path]:
        try:
            names = sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return []
        return [
            self.folder / name
            for name in names
            if name.endswith(suffix) and _ID.fullmatch(name.removesuffix(suffix))
        ]


def _read(file: Path) -> Request | None:
    """None for whatever is not a request: no file, a link, a pipe, too long, not ours."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _MOST_BYTES:
            return None
        content = os.read(handle, _MOST_BYTES)
    finally:
        os.close(handle)
    try:
        request = msgspec.json.decode(content, type=Request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return request if request.version == 1 and request.asker_pid > 0 else None


def this_asker(command: str) -> str:
    """The user, host and process that ask, and what with: `ann@desk, process 7: mooring stop demo`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}, process {os.getpid()}: {command}"
