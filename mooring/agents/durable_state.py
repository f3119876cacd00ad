"""Durable state of an agent: its incarnation number and what its machines have persisted.

One file with a checksum, replaced all or nothing and on disk before anything that follows from it is sent.
What could not be written is not remembered here either: the state that a new incarnation gets is the last one
that is known to be on disk. A file that cannot be read is never passed over: a machine that has forgotten may
promise the same thing twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import Data
from mooring.disk import DISK, Disk
from mooring.errors import EngineError, InputError


class _Kept(msgspec.Struct, frozen=True):
    incarnation: int
    """Of the next start."""
    machines: dict[str, msgspec.Raw]
    sum: str = ""
    """Of the rest; empty in files of earlier versions."""

    def signed(self) -> _Kept:
        plain = msgspec.json.encode(msgspec.structs.replace(self, sum=""))
        return msgspec.structs.replace(self, sum=hashlib.sha256(plain).hexdigest()[:16])


class DurableState:
    """Held by one process at a time. Writing raises `OSError` and then changes nothing."""

    def __init__(
        self,
        folder: Path,
        protocols: Sequence[HostedProtocol],
        *,
        on_disk: bool = True,
        disk: Disk = DISK,
    ) -> None:
        """Without `on_disk` it survives the process by any kill, but not the machine."""
        self._on_disk, self._disk = on_disk, disk
        disk.make_folder(folder, parents=True, exist_ok=True)
        self._file = folder / "durable.json"
        self._types = {protocol.name: protocol.durable for protocol in protocols}
        self._states: dict[str, Data] = {}
        try:
            self._held = disk.lock(folder / "lock")
        except BlockingIOError:
            raise EngineError(
                f"an agent already runs with the state in {folder}", remedy="stop it first"
            ) from None
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
        self._write(_Kept(incarnation + 1, self._kept.machines))
        return incarnation

    def of(self, protocol: str) -> Data:
        """What is on disk."""
        return self._states.get(protocol)

    def persist(self, protocol: str, state: Data) -> None:
        """`ValueError` for a state that could not be read again."""
        raw = msgspec.json.encode(state)
        try:
            if protocol in self._types and msgspec.json.decode(raw, type=self._types[protocol]) != state:
                raise ValueError("it decodes to another value")
        except (msgspec.DecodeError, ValueError) as error:
            raise ValueError(f"the state of {protocol} cannot be kept: {error}") from None
        machines = {**self._kept.machines, protocol: msgspec.Raw(raw)}
        self._write(_Kept(self._kept.incarnation, machines))
        self._states[protocol] = state

    def close(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _read(self) -> _Kept:
        try:
            kept = msgspec.json.decode(self._disk.read(self._file).data, type=_Kept)
        except FileNotFoundError:
            return _Kept(0, {})
        except (OSError, msgspec.DecodeError) as error:
            raise self._unreadable(error) from None
        if kept.sum not in ("", kept.signed().sum):
            raise self._unreadable("its checksum does not match")
        return kept

    def _decoded(self, protocol: HostedProtocol) -> Data:
        try:
            state: Data = msgspec.json.decode(self._kept.machines[protocol.name], type=protocol.durable)
            return state
        except msgspec.DecodeError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, why: object) -> InputError:
        return InputError(
            f"cannot be read: {why}",
            file=self._file,
            remedy="restore it; without it this site loses its promises to other sites",
        )

    def _write(self, kept: _Kept) -> None:
        self._disk.replace(self._file, msgspec.json.encode(kept.signed()), durable=self._on_disk)
        self._kept = kept
