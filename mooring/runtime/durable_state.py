"""What an agent must not forget: how often it was started, and what its machines have persisted.

One file, replaced all or nothing and on disk before anything that follows from it is sent. A file that cannot
be read is never passed over: a machine that has forgotten may promise the same thing twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mooring.errors import EngineError, InputError
from mooring.protocols.protocol import Data
from mooring.runtime.hosted_protocol import HostedProtocol
from mooring.whole_files import write_whole


class _Kept(msgspec.Struct):
    incarnation: int
    """Of the next start."""
    machines: dict[str, msgspec.Raw]


class DurableState:
    """Held by one process at a time."""

    def __init__(self, folder: Path, protocols: Sequence[HostedProtocol], *, on_disk: bool = True) -> None:
        """Without `on_disk` it survives the process by any kill, but not the machine."""
        self._on_disk = on_disk
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "durable.json"
        self._held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._held)
            raise EngineError(
                f"an agent already runs with the state in {folder}", remedy="stop it first"
            ) from None
        self._states: dict[str, Data] = {}
        try:
            self._kept = self._read()
            for protocol in protocols:
                if protocol.name in self._kept.machines:
                    self._states[protocol.name] = self._decoded(protocol)
        except InputError:
            self.close()
            raise

    def begin(self) -> int:
        """The number of a new incarnation, which no later one will have."""
        incarnation = self._kept.incarnation
        self._kept.incarnation += 1
        self._write()
        return incarnation

    def of(self, protocol: str) -> Data:
        return self._states.get(protocol)

    def persist(self, protocol: str, state: Data) -> None:
        self._states[protocol] = state
        self._kept.machines[protocol] = msgspec.Raw(msgspec.json.encode(state))
        self._write()

    def close(self) -> None:
        os.close(self._held)

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return _Kept(0, {})
        except (OSError, msgspec.DecodeError) as error:
            raise self._unreadable(error) from None

    def _decoded(self, protocol: HostedProtocol) -> Data:
        try:
            state: Data = msgspec.json.decode(self._kept.machines[protocol.name], type=protocol.durable)
            return state
        except msgspec.DecodeError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> InputError:
        return InputError(
            f"cannot be read: {error}",
            file=self._file,
            remedy="restore it; without it this site forgets what it has promised to others",
        )

    def _write(self) -> None:
        write_whole(self._file, msgspec.json.encode(self._kept), on_disk=self._on_disk)
